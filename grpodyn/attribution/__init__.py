"""Which parts of a model hold a run's change: patches, truncation, verdicts (rung 2)."""
