"""Small GNNs that are trained beside the user's and judge answers; start with `witness_set`."""
