"""Tables, transactions and migrations; start with `tables`."""
