"""Trains the GNNs that the benchmarks explain; start with `target_gnns`."""
