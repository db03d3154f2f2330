"""Chooses the node pairs to edit in large graphs; start with `candidate_space`."""
