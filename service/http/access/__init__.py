"""Keys, sessions and links: who sent a request, and whether it may pass."""
