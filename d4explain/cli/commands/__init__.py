"""One module per command of `d4explain`."""
