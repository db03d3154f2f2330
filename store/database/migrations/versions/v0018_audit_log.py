"""The audit log and the public signing keys, whose rows can only be added.

A later migration that builds one of these tables anew has to create its triggers again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

# All columns but the two that the leader writes once, when it gives an entry its place.
_CONTENT = (
    "id", "tenant_id", "at", "source", "key_id", "action", "resource", "content_sha256",
    "request_id", "outcome",
)  # fmt: skip
_REFUSAL = "rows of {table} are never changed or removed"


def upgrade() -> None:
    op.create_table(
        "audit_log",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("source", sa.String(length=24), nullable=False),
        sa.Column("key_id", sa.String(length=32), nullable=True),
        sa.Column("action", sa.String(length=100), nullable=False),
        sa.Column("resource", sa.String(length=300), nullable=True),
        sa.Column("content_sha256", sa.String(length=64), nullable=True),
        sa.Column("request_id", sa.String(length=32), nullable=True),
        sa.Column("outcome", sa.String(length=24), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=True),
        sa.Column("chain_sha256", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("audit_log_by_position", "audit_log", ["tenant_id", "position"], unique=True)
    unchained = sa.text("position IS NULL")
    op.create_index(
        "audit_log_unchained",
        "audit_log",
        ["id"],
        sqlite_where=unchained,
        postgresql_where=unchained,
    )
    op.create_table(
        "signing_keys",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("tenant_id", sa.String(length=64), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("first_seen_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    if op.get_context().dialect.name == "sqlite":
        _protect_sqlite()
    else:
        _protect_postgresql()


def downgrade() -> None:
    op.drop_table("signing_keys")
    op.drop_table("audit_log")
    if op.get_context().dialect.name != "sqlite":
        op.execute("DROP FUNCTION keep_audit_log()")
        op.execute("DROP FUNCTION keep_signing_keys()")


def _protect_sqlite() -> None:
    same = " AND ".join(f"NEW.{name} IS OLD.{name}" for name in _CONTENT)
    placed = f"OLD.position IS NULL AND NEW.position IS NOT NULL AND {same}"
    rules = (
        ("audit_log", "UPDATE", f"WHEN NOT ({placed})"),
        ("audit_log", "DELETE", ""),
        ("signing_keys", "UPDATE", ""),
        ("signing_keys", "DELETE", ""),
    )
    for table, change, condition in rules:
        op.execute(
            f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} {condition} "
            f"BEGIN SELECT RAISE(ABORT, '{_REFUSAL.format(table=table)}'); END"
        )


def _protect_postgresql() -> None:
    old, new = (", ".join(f"{row}.{name}" for name in _CONTENT) for row in ("OLD", "NEW"))
    refuse = "RAISE EXCEPTION '{refusal}' USING ERRCODE = 'restrict_violation';"
    placed = (
        "IF TG_OP = 'UPDATE' THEN "
        "IF OLD.position IS NULL AND NEW.position IS NOT NULL "
        f"AND ({old}) IS NOT DISTINCT FROM ({new}) THEN RETURN NEW; END IF; END IF; "
    )
    for table, exception in (("audit_log", placed), ("signing_keys", "")):
        op.execute(
            f"CREATE FUNCTION keep_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"{exception}{refuse.format(refusal=_REFUSAL.format(table=table))} END $$"
        )
        op.execute(
            f"CREATE TRIGGER {table}_rows BEFORE UPDATE OR DELETE ON {table} "
            f"FOR EACH ROW EXECUTE FUNCTION keep_{table}()"
        )
        op.execute(
            f"CREATE TRIGGER {table}_truncate BEFORE TRUNCATE ON {table} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION keep_{table}()"
        )
