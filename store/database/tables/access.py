"""The tables of API keys and of the tokens that are made from them."""

from __future__ import annotations

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from d4explain.contracts.scopes import TokenKind
from store.database.tables.base import DIGEST, ID, JsonObject, JsonTexts, Resource


class ApiKey(Resource):
    """A key of a tenant; its text is not stored."""

    __tablename__ = "api_keys"
    __table_args__ = (
        Index("api_keys_by_time", "tenant_id", "created_at", "id"),
        Index("api_keys_by_prefix", "prefix", unique=True),
    )

    name: Mapped[str] = mapped_column(String(200))
    prefix: Mapped[str] = mapped_column(String(16))  # d4_ and 12 hexadecimal digits
    sha256: Mapped[str] = mapped_column(DIGEST)  # of the whole text
    scopes: Mapped[JsonTexts]
    expires_at: Mapped[float | None]
    revoked_at: Mapped[float | None]
    last_used_at: Mapped[float | None]
    rotated_from: Mapped[str | None] = mapped_column(ID)
    caller_metadata: Mapped[JsonObject | None]  # see `store.database.lists.caller_metadata`


class TemporaryToken(Resource):
    """A session of a browser, or a link to one explanation; its text is not stored."""

    __tablename__ = "temporary_tokens"
    __table_args__ = (
        Index("temporary_tokens_by_hash", "sha256", unique=True),
        Index("temporary_tokens_by_explanation", "tenant_id", "explanation_id", "created_at", "id"),
        Index("temporary_tokens_by_expiry", "expires_at"),
    )

    kind: Mapped[TokenKind]
    sha256: Mapped[str] = mapped_column(DIGEST)
    key_id: Mapped[str | None] = mapped_column(ID)  # None without keys
    explanation_id: Mapped[str | None] = mapped_column(ID)  # of a link
    expires_at: Mapped[float]
