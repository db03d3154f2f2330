"""The layers of a GNN in sparse and dense form; start with `build`."""
