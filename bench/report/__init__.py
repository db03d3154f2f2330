"""Writes docs/benchmarks.md from saved results; start with `report`."""
