"""Witness sets, and jobs that wait for two others.

Columns are added in place: SQLite would otherwise build tables anew to which others refer.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "witness_sets",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("gnn_id", sa.String(length=32), nullable=False),
        sa.Column("dataset_id", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=24), nullable=False),
        sa.Column("weights_digest", sa.String(length=64), nullable=True),
        sa.Column("description", _json(), nullable=True),
        sa.Column("metrics", _json(), nullable=True),
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"]),
        sa.ForeignKeyConstraint(["gnn_id"], ["gnns.id"]),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant_id", "key", name="witness_sets_key"),
    )
    op.create_index("witness_sets_by_dataset", "witness_sets", ["dataset_id"])
    op.create_index("witness_sets_by_gnn", "witness_sets", ["gnn_id"])
    op.create_index("witness_sets_by_job", "witness_sets", ["job_id"])
    for table in ("jobs", "explanations"):
        op.add_column(table, sa.Column("witness_set_id", sa.String(length=32), nullable=True))
    op.add_column("jobs", sa.Column("also_waiting_for", sa.String(length=32), nullable=True))
    op.create_index("jobs_by_also_waiting_for", "jobs", ["also_waiting_for"])


def downgrade() -> None:
    op.drop_index("jobs_by_also_waiting_for", "jobs")
    op.drop_column("jobs", "also_waiting_for")
    for table in ("explanations", "jobs"):
        op.drop_column(table, "witness_set_id")
    op.drop_table("witness_sets")


def _json() -> sa.types.TypeEngine[Any]:
    return sa.JSON().with_variant(JSONB(), "postgresql")
