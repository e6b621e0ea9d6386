"""Measurements during training; one probe per file, found through `grpodyn.registry`."""
