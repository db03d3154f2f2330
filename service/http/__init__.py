"""What all routes share: bodies, limits, errors, responses and waiting."""
