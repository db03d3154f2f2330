"""Base classes and operations of the documents of a GNN spec."""
