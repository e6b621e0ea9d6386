"""Trajectory models, their noise and their selection: where a run ends and when to stop."""
