"""Requests and results of global counterfactuals."""
