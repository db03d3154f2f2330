"""Receipts of explanations, what repeats and signs them, and the chain of the audit log."""
