"""Metrics, and what every request leaves in the log; start with `middleware`."""
