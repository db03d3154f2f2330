"""Attacks on the API; start with `__main__`."""
