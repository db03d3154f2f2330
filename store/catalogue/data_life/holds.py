"""Holds: an admin protects a resource from deletion, and with it what the resource needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from store.database.sessions import read_clock
from store.database.tables import (
    Comparison,
    Dataset,
    Denoiser,
    Evaluation,
    Explanation,
    Gnn,
    Hold,
    Job,
    WitnessSet,
)
from store.errors import NotFound, OnHold


class Held(StrEnum):
    """What can be put on hold."""

    EXPLANATION = "explanation"
    GNN = "gnn"
    DATASET = "dataset"
    DENOISER = "denoiser"
    JOB = "job"
    EVALUATION = "evaluation"
    COMPARISON = "comparison"


Holdable = Explanation | Gnn | Dataset | Denoiser | Job | Evaluation | Comparison

_TABLES: dict[Held, type[Holdable]] = {
    Held.EXPLANATION: Explanation,
    Held.GNN: Gnn,
    Held.DATASET: Dataset,
    Held.DENOISER: Denoiser,
    Held.JOB: Job,
    Held.EVALUATION: Evaluation,
    Held.COMPARISON: Comparison,
}


@dataclass(frozen=True)
class Protected:
    """A hold and the other resources that it protects."""

    held_id: str
    reason: str
    key_id: str | None
    created_at: float
    needed: tuple[str, ...]


def put(
    session: Session,
    kind: Held,
    id_: str,
    reason: str,
    *,
    tenant: str,
    key_id: str | None,
    judges: Iterable[str] = (),
) -> Protected:
    """Puts a resource on hold, or changes the reason.

    It also protects what the resource needs to be repeated; `judges` are the GNNs of an
    explanation's request besides its own. Inputs that were deleted before are left out.
    """
    table = _TABLES[kind]
    row: Any = session.scalar(
        select(table)
        .where(table.id == id_, table.tenant_id == tenant)
        .with_for_update(key_share=True)
    )
    if row is None:
        raise NotFound(kind.value, id_)
    earlier = _rows(session, id_, tenant)
    at = next((hold.created_at for hold in earlier), read_clock(session))
    session.execute(delete(Hold).where(Hold.tenant_id == tenant, Hold.held_id == id_))
    needed = _existing(session, [*_needed(row), *judges], tenant)
    for protected in sorted({id_, *needed}):
        session.add(
            Hold(
                tenant_id=tenant,
                resource_id=protected,
                held_id=id_,
                reason=reason,
                key_id=key_id,
                created_at=at,
            )
        )
    session.flush()
    return get(session, kind, id_, tenant=tenant)


def get(session: Session, kind: Held, id_: str, *, tenant: str) -> Protected:
    rows = _rows(session, id_, tenant)
    if not rows:
        raise NotFound("hold", id_, f"there is no hold on the {kind.value} {id_[:64]!r}")
    return _protected(rows)


def remove(session: Session, kind: Held, id_: str, *, tenant: str) -> None:
    removed = session.scalars(
        delete(Hold)
        .where(Hold.tenant_id == tenant, Hold.held_id == id_)
        .returning(Hold.resource_id)
    ).all()
    if not removed:
        raise NotFound("hold", id_, f"there is no hold on the {kind.value} {id_[:64]!r}")


def everything(session: Session, *, tenant: str) -> list[Protected]:
    """All holds of a tenant, newest first."""
    rows = session.scalars(
        select(Hold).where(Hold.tenant_id == tenant).order_by(Hold.created_at.desc(), Hold.held_id)
    ).all()
    held_ids = dict.fromkeys(row.held_id for row in rows)
    return [_protected([row for row in rows if row.held_id == id_]) for id_ in held_ids]


def refuse_if_held(session: Session, id_: str, *, tenant: str) -> None:
    """Call it with the row of the resource locked, as `put` locks it."""
    hold = session.scalar(
        select(Hold)
        .where(Hold.tenant_id == tenant, Hold.resource_id == id_)
        .order_by((Hold.held_id == id_).desc(), Hold.held_id)
        .limit(1)
    )
    if hold is not None:
        raise OnHold(id_, hold.held_id, hold.reason)


def _needed(row: Holdable) -> Sequence[str | None]:
    match row:
        case Explanation():
            return (row.gnn_id, row.dataset_id, row.denoiser_id, row.witness_set_id)
        case Evaluation():
            used = (row.gnn_id, row.dataset_id, row.denoiser_id, row.witness_set_id)
            return (*used, row.test_dataset_id)
        case Comparison():
            return (row.baseline_id, row.candidate_id)
        case Denoiser():
            return (row.gnn_id, row.dataset_id)
        case Job():
            return (row.gnn_id, row.dataset_id, row.denoiser_id, row.witness_set_id)
    return ()


def _existing(session: Session, ids: Iterable[str | None], tenant: str) -> set[str]:
    """Those that exist, locked: a deletion either comes first or sees the hold."""
    wanted = sorted({id_ for id_ in ids if id_ is not None})
    found: set[str] = set()
    for table in (Gnn, Dataset, Denoiser, WitnessSet, Evaluation):
        query = select(table.id).where(table.tenant_id == tenant, table.id.in_(wanted))
        query = query.order_by(table.id).with_for_update(read=True, key_share=True)
        found.update(session.scalars(query))
    return found


def _rows(session: Session, held_id: str, tenant: str) -> Sequence[Hold]:
    query = select(Hold).where(Hold.tenant_id == tenant, Hold.held_id == held_id)
    return session.scalars(
        query.order_by(Hold.resource_id).execution_options(populate_existing=True)
    ).all()


def _protected(rows: Sequence[Hold]) -> Protected:
    first = rows[0]
    needed = tuple(row.resource_id for row in rows if row.resource_id != row.held_id)
    return Protected(first.held_id, first.reason, first.key_id, first.created_at, needed)
