"""Finding files and lines: with ripgrep where it is, in process where it is not, with the same
results."""
