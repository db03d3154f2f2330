"""Metrics of graphs and answers as plain functions."""
