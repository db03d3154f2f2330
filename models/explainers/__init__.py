"""Explainers of one prediction: `interface`, `catalogue`, `curve` and `factual`; `algorithms`."""
