"""Compares counterfactual methods: `methods` lists them, `comparison` runs them."""
