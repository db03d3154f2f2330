"""What an operator runs: checks of a deployment and of its data, and backups."""
