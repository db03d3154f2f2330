"""Figures of answers for a whole test set, their intervals, and comparisons of two evaluations."""
