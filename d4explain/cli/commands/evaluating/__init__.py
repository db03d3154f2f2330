"""Commands about whole test sets."""
