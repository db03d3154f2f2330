"""Evaluations of test sets and comparisons of two of them: requests, rows and results."""
