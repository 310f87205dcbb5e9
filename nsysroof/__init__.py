"""Measured against theory: the roofline of every kernel in an Nsight Systems capture."""
