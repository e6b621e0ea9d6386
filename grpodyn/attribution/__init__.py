"""Where a run's change is stored: parts of the model with their change taken out, or alone, on held-out prompts."""
