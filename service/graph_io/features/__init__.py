"""How the features of posted graphs become those that a GNN expects."""
