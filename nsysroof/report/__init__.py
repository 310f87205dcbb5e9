"""One module per format; they render and compute nothing."""
