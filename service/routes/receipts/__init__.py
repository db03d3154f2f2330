"""Routes by which answers and actions can be checked: receipts, replays and the audit log."""
