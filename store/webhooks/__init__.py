"""Webhooks: `endpoints` stores where notifications go, `deliveries` hands them to workers."""
