"""Which node types and patterns occur in the reference set."""
