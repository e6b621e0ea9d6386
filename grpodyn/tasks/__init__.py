"""Tasks by name: prompts, answers, splits."""
