"""One module per command of `d4explain`, in rooms by what a command is about."""
