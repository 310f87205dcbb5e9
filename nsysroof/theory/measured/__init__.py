"""Roofs that were measured on a machine: read from the output of benchmarks, written as TOML."""
