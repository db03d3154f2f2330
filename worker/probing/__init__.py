"""Checks a GNN when it is registered; start with `conformance`."""
