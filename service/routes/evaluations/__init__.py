"""Evaluations of test sets, their rows, and comparisons."""
