"""Compares counterfactual methods: `methods` lists them, `comparison` runs them.

`transfer` (with its `judges`) and `realism` (with `c2st`) measure whether answers are believable.
"""
