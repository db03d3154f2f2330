"""The table by which lists find resources by the metadata of their callers."""

from __future__ import annotations

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from store.database.tables.base import ID, Table


class MetadataEntry(Table):
    """One value of the `caller_metadata` of a row, as text; the row has the value itself."""

    __tablename__ = "metadata_entries"
    __table_args__ = (
        Index("metadata_entries_by_value", "tenant_id", "key", "value", "resource_id"),
    )

    resource_id: Mapped[str] = mapped_column(ID, primary_key=True)
    key: Mapped[str] = mapped_column(String(64), primary_key=True)
    tenant_id: Mapped[str] = mapped_column(String(64))
    value: Mapped[str] = mapped_column(String(256))
