"""One module per command; they print and exit and do nothing else."""
