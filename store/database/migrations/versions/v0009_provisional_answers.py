"""Provisional answers, and estimates of the time that a job takes.

Columns are added in place: SQLite would otherwise build tables anew to which others refer.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("waiting_for_provisional", sa.String(length=32), nullable=True))
    op.add_column("jobs", sa.Column("estimated_seconds", sa.Double(), nullable=True))
    op.create_index("jobs_by_waiting_for_provisional", "jobs", ["waiting_for_provisional"])
    for name, length in (("provisional_job_id", 32), ("provisional_digest", 64)):
        op.add_column("explanations", sa.Column(name, sa.String(length=length), nullable=True))
    op.create_index("explanations_by_provisional_job", "explanations", ["provisional_job_id"])


def downgrade() -> None:
    """Deletes provisional answers and their jobs, whose kind the earlier version does not know."""
    op.drop_index("explanations_by_provisional_job", "explanations")
    for name in ("provisional_digest", "provisional_job_id"):
        op.drop_column("explanations", name)
    op.drop_index("jobs_by_waiting_for_provisional", "jobs")
    for name in ("estimated_seconds", "waiting_for_provisional"):
        op.drop_column("jobs", name)
    provisional = "SELECT id FROM jobs WHERE kind = 'provisional'"
    op.execute(f"DELETE FROM job_events WHERE type = 'answer' OR job_id IN ({provisional})")
    op.execute("UPDATE jobs SET retry_of = NULL WHERE kind = 'provisional'")
    op.execute("DELETE FROM jobs WHERE kind = 'provisional'")
    op.execute("DELETE FROM job_totals WHERE kind = 'provisional'")
