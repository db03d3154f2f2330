"""Checks of a spec beyond its fields; start with `structure`."""
