"""The requests of the client, one module per resource; each is written once for both clients."""
