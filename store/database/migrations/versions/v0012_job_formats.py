"""Formats of jobs, and what each worker knows: its format, version and machine."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("format", sa.Integer(), nullable=False, server_default="1"))
    op.add_column(
        "workers", sa.Column("job_format", sa.Integer(), nullable=False, server_default="1")
    )
    for name in ("version", "machine"):
        op.add_column(
            "workers",
            sa.Column(name, sa.String(length=64), nullable=False, server_default="unknown"),
        )


def downgrade() -> None:
    for name in ("machine", "version", "job_format"):
        op.drop_column("workers", name)
    op.drop_column("jobs", "format")
