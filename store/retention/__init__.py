"""Deletes what is no longer needed: expired resources and unused artifacts."""
