"""Findings from a recorded run; one analysis per file, found through `grpodyn.registry`."""
