"""Notebooks of the report; found through `importlib.resources`."""
