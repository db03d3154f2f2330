"""Jobs that explain a class have the kind `class`, as their explanations do."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _rename("class_explanation", "class")


def downgrade() -> None:
    _rename("class", "class_explanation")


def _rename(old: str, new: str) -> None:
    for table in ("jobs", "job_totals"):
        op.execute(f"UPDATE {table} SET kind = '{new}' WHERE kind = '{old}'")
