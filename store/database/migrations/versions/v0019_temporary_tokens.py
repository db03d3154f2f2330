"""Sessions of browsers and links to explanations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "temporary_tokens",
        sa.Column("id", sa.String(length=32), primary_key=True),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("kind", sa.String(length=24), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("key_id", sa.String(length=32)),
        sa.Column("explanation_id", sa.String(length=32)),
        sa.Column("expires_at", sa.Double(), nullable=False),
    )
    op.create_index("temporary_tokens_by_hash", "temporary_tokens", ["sha256"], unique=True)
    op.create_index(
        "temporary_tokens_by_explanation",
        "temporary_tokens",
        ["tenant_id", "explanation_id", "created_at", "id"],
    )
    op.create_index("temporary_tokens_by_expiry", "temporary_tokens", ["expires_at"])


def downgrade() -> None:
    op.drop_table("temporary_tokens")
