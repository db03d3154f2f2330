"""Checks requests for global counterfactuals and estimates what they cost."""
