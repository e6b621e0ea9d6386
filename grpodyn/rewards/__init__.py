"""Reward functions by name."""
