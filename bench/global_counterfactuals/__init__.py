"""Coverage of a class by a few counterfactuals; start with `comparison`."""
