"""How Alembic reaches the database: through a connection of `store.database.schema`, if any."""

from __future__ import annotations

from alembic import context

from store.database.tables import Table

if context.is_offline_mode():  # writes SQL and connects to nothing
    context.configure(dialect_name=context.config.attributes["dialect"], literal_binds=True)
else:
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=Table.metadata,
        compare_type=True,
        render_as_batch=True,  # SQLite cannot alter most things in place
    )
with context.begin_transaction():
    context.run_migrations()
