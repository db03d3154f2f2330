"""Checks of requests for evaluations and comparisons."""
