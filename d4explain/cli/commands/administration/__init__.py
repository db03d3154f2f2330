"""Commands for admins: keys, webhooks, the life of data and the audit log."""
