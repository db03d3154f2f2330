"""Answers short questions of the API at once, also while the process runs a job."""
