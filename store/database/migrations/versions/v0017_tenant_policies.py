"""Quotas and retention times of tenants, and when networks were last used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    values = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
    op.create_table(
        "tenant_policies",
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("quotas", values, nullable=False),
        sa.Column("retention", values, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id"),
    )
    for table in ("denoisers", "witness_sets"):
        op.add_column(table, sa.Column("used_at", sa.Double(), nullable=True))
    op.create_index("jobs_by_state", "jobs", ["tenant_id", "state"])


def downgrade() -> None:
    op.drop_index("jobs_by_state", "jobs")
    for table in ("witness_sets", "denoisers"):
        op.drop_column(table, "used_at")
    op.drop_table("tenant_policies")
