"""Searches edit sets that flip the GNN; start with `flip_search`."""
