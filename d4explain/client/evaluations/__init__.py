"""Requests about evaluations and comparisons, and their resources."""
