"""Records what a model does with sample graphs."""
