"""Translate modules of PyTorch and PyG to layers of the vocabulary."""
