"""Routes of explanations: ask, read, what-if, reports."""
