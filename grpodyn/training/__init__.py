"""Builds and runs a trainer from a run config."""
