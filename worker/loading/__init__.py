"""Turns rows and artifacts into networks and tensors; start with `library`."""
