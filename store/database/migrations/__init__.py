"""Alembic's environment for the schema of the database."""
