"""Graphs of answers in the formats of `?format=`."""
