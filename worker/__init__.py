"""Runs jobs; start with `execution/runner` and `handlers`."""
