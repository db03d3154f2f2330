"""Sends notifications of ended jobs; start with `delivery_loop`. Imports no torch."""
