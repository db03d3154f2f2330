"""Class explainers that build graphs by the GNN's confidence in them alone, without a denoiser."""
