"""Runs the whole system on one machine; start with `supervisor`."""
