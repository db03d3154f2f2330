"""The tables by which data is counted, kept, held and deleted."""

from __future__ import annotations

from sqlalchemy import BigInteger, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from store.database.clock import now
from store.database.tables.base import DIGEST, ID, JsonObject, JsonTexts, Table


class ArtifactEntry(Table):
    """An artifact that rows of a tenant refer to, or did; see `artifact_ledger`."""

    __tablename__ = "artifacts"
    __table_args__ = (Index("artifacts_by_release", "released_at"),)

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    digest: Mapped[str] = mapped_column(DIGEST, primary_key=True)
    size: Mapped[int] = mapped_column(BigInteger)  # bytes; 0 after its deletion
    released_at: Mapped[float | None]  # when a row ceased to refer to it; others may still do
    deleting_since: Mapped[float | None]  # if set, the file may be gone


class TenantUsage(Table):
    """What a tenant uses; the lock of this row orders transactions that count against a quota."""

    __tablename__ = "tenant_usage"

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    stored_bytes: Mapped[int] = mapped_column(BigInteger)


class TenantPolicy(Table):
    """What an operator or admin has set for one tenant; other values are the deployment's."""

    __tablename__ = "tenant_policies"

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    quotas: Mapped[JsonObject]  # fields of `Quotas`
    retention: Mapped[JsonObject]  # days by kind


class Deletion(Table):
    """A deleted resource and the artifacts that it referred to."""

    __tablename__ = "deletions"
    __table_args__ = (Index("deletions_by_purge", "purged_at", "deleted_at"),)

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    resource_id: Mapped[str] = mapped_column(ID, primary_key=True)
    kind: Mapped[str] = mapped_column(String(24))
    digests: Mapped[JsonTexts]
    deleted_at: Mapped[float] = mapped_column(default=now())
    purged_at: Mapped[float | None]  # when it was verified that none of its files is left


class Hold(Table):
    """Protects a resource from deletion: because it is on hold itself, or another one needs it."""

    __tablename__ = "holds"

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    resource_id: Mapped[str] = mapped_column(ID, primary_key=True)
    held_id: Mapped[str] = mapped_column(ID, primary_key=True)  # the resource that is on hold
    reason: Mapped[str] = mapped_column(Text)
    key_id: Mapped[str | None] = mapped_column(ID)  # API key of the admin; None without keys
    created_at: Mapped[float] = mapped_column(default=now())


class IdempotencyKey(Table):
    """Maps a client's key to the resource that it created."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (Index("idempotency_keys_by_expiry", "expires_at"),)

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    body_sha256: Mapped[str] = mapped_column(DIGEST)
    route: Mapped[str] = mapped_column(String(255))
    resource: Mapped[str] = mapped_column(Text)
    created_at: Mapped[float] = mapped_column(default=now())
    expires_at: Mapped[float]
