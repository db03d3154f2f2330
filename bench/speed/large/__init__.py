"""Time and memory for nodes of large graphs; start with `runs`."""
