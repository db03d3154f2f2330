"""Metadata of callers on evaluations and comparisons."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

_TABLES = ("evaluations", "comparisons")


def upgrade() -> None:
    values = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
    for table in _TABLES:
        op.add_column(table, sa.Column("caller_metadata", values, nullable=True))


def downgrade() -> None:
    for table in _TABLES:
        ids = sa.select(sa.table(table, sa.column("id")).c.id)
        entries = sa.table("metadata_entries", sa.column("resource_id"))
        op.execute(sa.delete(entries).where(entries.c.resource_id.in_(ids)))
        op.drop_column(table, "caller_metadata")
