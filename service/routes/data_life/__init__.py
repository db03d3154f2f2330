"""Routes about how long data is kept: holds, retention, quotas."""
