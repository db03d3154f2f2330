"""Reads posted graphs (`graph_reader`) and writes graphs of results (`graph_writers`)."""
