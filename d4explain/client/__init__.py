"""The Python client of the API; start with `client`."""
