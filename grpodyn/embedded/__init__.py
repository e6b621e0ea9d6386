"""The embedded default model and the command that rebuilds it."""
