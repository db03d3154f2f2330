"""Versions, aliases, descriptions and tags of GNNs.

Columns are added in place: SQLite would otherwise build the table anew, and denoisers refer to it.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("gnns", sa.Column("version", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("gnns", sa.Column("description", sa.Text(), nullable=True))
    op.add_column("gnns", sa.Column("tags", _json(), nullable=False, server_default="{}"))
    op.execute(
        "UPDATE gnns SET version = (SELECT count(*) FROM gnns AS earlier "
        "WHERE earlier.tenant_id = gnns.tenant_id AND earlier.name = gnns.name "
        "AND (earlier.created_at, earlier.id) <= (gnns.created_at, gnns.id))"
    )
    op.create_index("gnns_by_name", "gnns", ["tenant_id", "name", "version"], unique=True)
    op.create_table(
        "gnn_names",
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("last_version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "name"),
    )
    op.execute(
        "INSERT INTO gnn_names (tenant_id, name, last_version) "
        "SELECT tenant_id, name, max(version) FROM gnns GROUP BY tenant_id, name"
    )
    op.create_table(
        "gnn_aliases",
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("alias", sa.String(length=64), nullable=False),
        sa.Column("gnn_id", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["gnn_id"], ["gnns.id"]),
        sa.PrimaryKeyConstraint("tenant_id", "name", "alias"),
    )
    op.create_index("gnn_aliases_by_gnn", "gnn_aliases", ["gnn_id"])


def downgrade() -> None:
    op.drop_table("gnn_aliases")
    op.drop_table("gnn_names")
    op.drop_index("gnns_by_name", "gnns")
    for column in ("tags", "description", "version"):
        op.drop_column("gnns", column)


def _json() -> sa.types.TypeEngine[Any]:
    return sa.JSON().with_variant(JSONB(), "postgresql")
