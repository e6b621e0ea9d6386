"""Outcomes of groups of completions, and what another group size would have seen."""
