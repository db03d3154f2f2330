"""Pages about one answer: the report for auditors and the letter for the person concerned."""
