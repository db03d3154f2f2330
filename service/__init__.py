"""The HTTP API; start with `app`. It never imports torch."""
