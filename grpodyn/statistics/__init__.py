"""Intervals, paired tests and power: what a difference between runs is worth."""
