"""Ended jobs are counted once, when they end."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "job_totals",
        sa.Column("tenant_id", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String(24), primary_key=True),
        sa.Column("state", sa.String(24), primary_key=True),
        sa.Column("count", sa.BigInteger(), nullable=False),
    )
    op.execute(
        "INSERT INTO job_totals (tenant_id, kind, state, count) "
        "SELECT tenant_id, kind, state, count(*) FROM jobs "
        "WHERE state NOT IN ('queued', 'running') GROUP BY tenant_id, kind, state"
    )


def downgrade() -> None:
    op.drop_table("job_totals")
