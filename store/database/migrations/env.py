"""How Alembic reaches the database: through the connection that `Database.migrate` holds."""

from __future__ import annotations

from alembic import context

from store.database.tables import Table

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Table.metadata,
    compare_type=True,
    render_as_batch=True,  # SQLite cannot alter most things in place
)
with context.begin_transaction():
    context.run_migrations()
