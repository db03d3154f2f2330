"""Ablation of the search on validation instances; start with `comparison`."""
