"""Canonical names and descriptions of parameters."""
