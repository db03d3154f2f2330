"""Compares class explainers: `methods` lists them, `comparison` runs them."""
