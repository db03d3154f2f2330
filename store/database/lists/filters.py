"""What lists of all kinds are filtered by: the time of creation and the caller's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Select, and_, func, or_, select

from store.database.lists.caller_metadata import texts_of
from store.database.lists.paging import Row
from store.database.tables.metadata import MetadataEntry


@dataclass(frozen=True)
class Filters:
    created_after: float | None = None  # from this time on
    created_before: float | None = None  # earlier than this time
    metadata: Mapping[str, str] = field(default_factory=dict)  # all of them match

    def applied_to(self, query: Select[Row], table: type[Row], tenant: str) -> Select[Row]:
        """The query for those rows of the tenant that pass."""
        if self.created_after is not None:
            query = query.where(table.created_at >= self.created_after)
        if self.created_before is not None:
            query = query.where(table.created_at < self.created_before)
        if self.metadata:
            query = query.where(table.id.in_(self._with_metadata(tenant)))
        return query

    def _with_metadata(self, tenant: str) -> Select[str]:
        """The ids of resources that have all values.

        One subquery that counts: a planner without statistics would join several of them pairwise.
        """
        wanted = (
            and_(MetadataEntry.key == key, MetadataEntry.value.in_(texts_of(value)))
            for key, value in self.metadata.items()
        )
        return (
            select(MetadataEntry.resource_id)
            .where(MetadataEntry.tenant_id == tenant, or_(*wanted))
            .group_by(MetadataEntry.resource_id)
            .having(func.count() == len(self.metadata))
        )


NO_FILTERS = Filters()
