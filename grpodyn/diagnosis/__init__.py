"""Findings: what goes wrong in a run, told from its record."""
