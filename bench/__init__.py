"""Measurements: trains example GNNs, reproduces tables, prints and writes what it found."""
