"""The paper's method as printed: which sizes are affordable, and a long training in pieces."""
