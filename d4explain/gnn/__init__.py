"""The vocabulary of GNNs that can be explained: each layer in a sparse and an equal dense form."""
