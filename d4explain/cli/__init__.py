"""The command line; start with `main`."""
