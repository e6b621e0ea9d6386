"""One command per file; the file name is the command name."""
