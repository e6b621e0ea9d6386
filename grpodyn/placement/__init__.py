"""What predicts where training works: statistics of a run and of its patch test, judged by training each part alone."""
