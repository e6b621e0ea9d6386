"""Other people's logs and checkpoints as run directories."""
