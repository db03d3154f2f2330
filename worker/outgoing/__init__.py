"""Requests to URLs of users; start with `pinned_requests`."""
