"""How many attributes the edges of a reference set have."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "datasets", sa.Column("edge_features", sa.Integer(), nullable=False, server_default="0")
    )


def downgrade() -> None:
    op.drop_column("datasets", "edge_features")
