"""Figures of analysis results: drawn without a display, described in words, computed elsewhere."""
