"""Explainers of one prediction behind one interface; start with `interface`, then `curve`."""
