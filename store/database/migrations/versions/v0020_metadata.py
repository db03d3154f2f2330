"""Metadata of callers on their resources; notifications are found by their job."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_TABLES = ("gnns", "datasets", "denoisers", "explanations", "jobs", "webhooks", "api_keys")


def upgrade() -> None:
    values = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
    for table in _TABLES:
        op.add_column(table, sa.Column("caller_metadata", values, nullable=True))
    op.create_table(
        "metadata_entries",
        sa.Column("resource_id", sa.String(length=32), primary_key=True),
        sa.Column("key", sa.String(length=64), primary_key=True),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("value", sa.String(length=256), nullable=False),
    )
    op.create_index(
        "metadata_entries_by_value",
        "metadata_entries",
        ["tenant_id", "key", "value", "resource_id"],
    )
    op.create_index("webhook_deliveries_by_job", "webhook_deliveries", ["job_id"])


def downgrade() -> None:
    op.drop_index("webhook_deliveries_by_job", table_name="webhook_deliveries")
    op.drop_table("metadata_entries")
    for table in _TABLES:
        op.drop_column(table, "caller_metadata")
