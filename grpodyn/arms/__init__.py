"""Runs as arms of a comparison: which of them repeat one config, how far repeats differ, and what can be told apart."""
