"""Watches a training run: decides what is due, shares the work, measures its own cost."""
