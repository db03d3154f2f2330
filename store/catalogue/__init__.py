"""The rows of GNNs, reference sets, denoisers and explanations: one module per resource."""
