"""Finds counterfactuals of graphs and nodes; start with `explain`."""
