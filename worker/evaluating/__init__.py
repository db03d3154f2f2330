"""Rows of evaluations, their figures, and comparisons."""
