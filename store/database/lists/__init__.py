"""Lists of resources: pages, filters, and the metadata that callers filter by."""
