"""Database, files, queue and settings, shared by API and workers; start with `store`."""
