"""Answers of explanations: waiting, progress, conversion and notebook output."""
