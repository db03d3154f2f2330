"""Large data as files named by their SHA-256; start with `files`."""
