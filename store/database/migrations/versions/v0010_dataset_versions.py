"""Versions of reference sets, counted per name."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "datasets", sa.Column("version", sa.Integer(), nullable=False, server_default="0")
    )
    op.execute(
        "UPDATE datasets SET version = (SELECT count(*) FROM datasets AS earlier "
        "WHERE earlier.tenant_id = datasets.tenant_id AND earlier.name = datasets.name "
        "AND (earlier.created_at, earlier.id) <= (datasets.created_at, datasets.id))"
    )
    op.create_index("datasets_by_name", "datasets", ["tenant_id", "name", "version"], unique=True)
    op.create_table(
        "dataset_names",
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("last_version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "name"),
    )
    op.execute(
        "INSERT INTO dataset_names (tenant_id, name, last_version) "
        "SELECT tenant_id, name, max(version) FROM datasets GROUP BY tenant_id, name"
    )


def downgrade() -> None:
    op.drop_table("dataset_names")
    op.drop_index("datasets_by_name", "datasets")
    op.drop_column("datasets", "version")
