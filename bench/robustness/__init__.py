"""Compares how explanations hold under small changes of the graph; start with `comparison`."""
