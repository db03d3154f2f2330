"""How fast things are, as ratios within one run: the machine's own noise then cancels."""
