"""Warnings of reference sets: what was left out of the posted graphs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    texts = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
    op.add_column("datasets", sa.Column("warnings", texts, nullable=True))


def downgrade() -> None:
    op.drop_column("datasets", "warnings")
