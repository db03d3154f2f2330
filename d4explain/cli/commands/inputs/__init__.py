"""Commands about what explanations need: GNNs, reference sets and denoisers."""
