"""The files of a GNN: archive, weights and the tensors in them."""
