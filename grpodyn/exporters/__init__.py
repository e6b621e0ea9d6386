"""Runs as files of other tools."""
