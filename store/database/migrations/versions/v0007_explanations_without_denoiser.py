"""Explanations without a denoiser.

SQLite builds the table anew; no other table refers to it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _set_nullable(True)


def downgrade() -> None:
    op.execute("UPDATE explanations SET denoiser_id = '' WHERE denoiser_id IS NULL")
    _set_nullable(False)


def _set_nullable(nullable: bool) -> None:
    with op.batch_alter_table("explanations") as batch:
        batch.alter_column("denoiser_id", existing_type=sa.String(length=32), nullable=nullable)
