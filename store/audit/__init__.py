"""The audit log after the commits: its chain, its pages and its head."""
