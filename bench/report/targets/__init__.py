"""Targets of the report, and whether measurements reach them; start with `evaluate`."""
