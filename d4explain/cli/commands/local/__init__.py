"""Commands about this machine: the whole stack, its check and its demonstration."""
