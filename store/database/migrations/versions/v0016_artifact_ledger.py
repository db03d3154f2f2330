"""The ledger of artifacts, notes about deleted resources, and holds.

The next cleanup enters the artifacts that exist already: only the store knows their sizes.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "artifacts",
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("released_at", sa.Double(), nullable=True),
        sa.Column("deleting_since", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("tenant_id", "digest"),
    )
    op.create_index("artifacts_by_release", "artifacts", ["released_at"])
    op.create_table(
        "tenant_usage",
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("stored_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id"),
    )
    texts = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
    op.create_table(
        "deletions",
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("resource_id", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=24), nullable=False),
        sa.Column("digests", texts, nullable=False),
        sa.Column("deleted_at", sa.Double(), nullable=False),
        sa.Column("purged_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("tenant_id", "resource_id"),
    )
    op.create_index("deletions_by_purge", "deletions", ["purged_at", "deleted_at"])
    op.create_table(
        "holds",
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("resource_id", sa.String(length=32), nullable=False),
        sa.Column("held_id", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("key_id", sa.String(length=32), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "resource_id", "held_id"),
    )
    op.create_index("jobs_by_subject", "jobs", ["subject_id"])


def downgrade() -> None:
    op.drop_index("jobs_by_subject", "jobs")
    for table in ("holds", "deletions", "tenant_usage", "artifacts"):
        op.drop_table(table)
