"""Counterfactuals that convince witnesses and look like the data; start with `answers`."""
