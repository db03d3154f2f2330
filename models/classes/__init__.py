"""Explains a class by patterns of its graphs; start with `explain`."""
