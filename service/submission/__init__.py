"""Checks requests and stores them with their jobs; start with `explanation_checks`."""
