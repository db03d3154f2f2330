"""Turns explanations into result documents; start with `documents`."""
