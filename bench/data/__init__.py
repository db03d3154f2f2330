"""Benchmark data sets; start with `tasks`."""
