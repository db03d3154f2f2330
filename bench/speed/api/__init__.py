"""Speed of the API: load, submissions and the first answer."""
