"""The tables by which actions and answers are checked; triggers let rows only be added."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import BigInteger, Index, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from store.database.clock import now
from store.database.tables.base import DIGEST, ID, SERIAL, Table, text_enum


class Source(StrEnum):
    """Who acted: a client of the API, a worker, a command on the database, or a retention time."""

    API = "api"
    WORKER = "worker"
    COMMAND = "command"
    RETENTION = "retention"


class Outcome(StrEnum):
    DONE = "done"
    REFUSED = "refused"


class AuditEntry(Table):
    """One action of a tenant; the leader chains entries after their commit.

    `position` and `chain_sha256` are null until then, and are written once.
    """

    __tablename__ = "audit_log"
    __table_args__ = (
        Index("audit_log_by_position", "tenant_id", "position", unique=True),
        Index(
            "audit_log_unchained",
            "id",
            sqlite_where=text("position IS NULL"),
            postgresql_where=text("position IS NULL"),
        ),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(SERIAL, primary_key=True, autoincrement=True)
    tenant_id: Mapped[str] = mapped_column(String(64))
    at: Mapped[float] = mapped_column(default=now())
    source: Mapped[Source] = mapped_column(text_enum(Source))
    key_id: Mapped[str | None] = mapped_column(ID)
    action: Mapped[str] = mapped_column(String(100))
    resource: Mapped[str | None] = mapped_column(String(300))
    content_sha256: Mapped[str | None] = mapped_column(DIGEST)  # of what was stored
    request_id: Mapped[str | None] = mapped_column(ID)
    outcome: Mapped[Outcome] = mapped_column(text_enum(Outcome))
    position: Mapped[int | None] = mapped_column(BigInteger)  # in the tenant's chain, from 1
    chain_sha256: Mapped[str | None] = mapped_column(DIGEST)


class SigningKey(Table):
    """A public key that signs receipts or signed them before; keys are never removed."""

    __tablename__ = "signing_keys"

    id: Mapped[str] = mapped_column(DIGEST, primary_key=True)  # SHA-256 of the public key
    tenant_id: Mapped[str] = mapped_column(String(64), default="default")
    public_key: Mapped[str] = mapped_column(Text)  # PEM
    first_seen_at: Mapped[float] = mapped_column(default=now())
