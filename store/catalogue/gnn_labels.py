"""Aliases and tags of a registered GNN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from d4explain.contracts.errors import InvalidInput, quoted
from store.database.tables import Gnn, GnnAlias, GnnName
from store.errors import NotFound

MAX_TAGS = 32


def aliases_of(session: Session, gnn_id: str) -> list[str]:
    query = select(GnnAlias.alias).where(GnnAlias.gnn_id == gnn_id).order_by(GnnAlias.alias)
    return list(session.scalars(query))


def aliases_by_gnn(session: Session, gnn_ids: Sequence[str]) -> dict[str, list[str]]:
    """Like `aliases_of`, for several GNNs in one query."""
    found: dict[str, list[str]] = {gnn_id: [] for gnn_id in gnn_ids}
    query = select(GnnAlias.gnn_id, GnnAlias.alias).where(GnnAlias.gnn_id.in_(gnn_ids))
    for gnn_id, alias in session.execute(query.order_by(GnnAlias.alias)):
        found[gnn_id].append(alias)
    return found


def set_alias(session: Session, alias: str, gnn: Gnn) -> None:
    """Moves the alias to this version."""
    # Lock the row of the name, so that two transactions cannot insert the same alias.
    session.execute(
        select(GnnName.name)
        .where(GnnName.tenant_id == gnn.tenant_id, GnnName.name == gnn.name)
        .with_for_update()
    )
    session.merge(GnnAlias(tenant_id=gnn.tenant_id, name=gnn.name, alias=alias, gnn_id=gnn.id))
    session.flush()


def remove_alias(session: Session, name: str, alias: str, tenant: str) -> None:
    removed = session.scalar(
        delete(GnnAlias)
        .where(GnnAlias.tenant_id == tenant, GnnAlias.name == name, GnnAlias.alias == alias)
        .returning(GnnAlias.gnn_id)
    )
    if removed is None:
        raise NotFound("alias", alias, f"the gnn {quoted(name)} has no alias {quoted(alias)}")


def merge_tags(gnn: Gnn, changes: Mapping[str, str | None]) -> None:
    """Merges tags as RFC 7396 does: null removes a tag, missing tags stay."""
    merged = {**gnn.tags, **changes}
    tags = {key: value for key, value in merged.items() if value is not None}
    if len(tags) > MAX_TAGS:
        raise InvalidInput(
            f"the GNN would have {len(tags)} tags; at most {MAX_TAGS} are accepted",
            "/tags",
            allowed=MAX_TAGS,
        )
    gnn.tags = tags
