"""Graphs, GNN specs and GNNs; every layer has a sparse and an equal dense form."""
