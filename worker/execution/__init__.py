"""Runs jobs; start with `runner`."""
