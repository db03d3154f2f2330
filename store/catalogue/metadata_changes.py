"""Changes the metadata of a resource, and of the job that shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from store.database.lists import caller_metadata
from store.database.lists.caller_metadata import Described
from store.database.tables import (
    Comparison,
    Dataset,
    Denoiser,
    Evaluation,
    Explanation,
    Gnn,
    Webhook,
)
from store.errors import NotFound
from store.jobs.submission import locked

Changed = Gnn | Dataset | Denoiser | Explanation | Evaluation | Comparison | Webhook
Row = TypeVar("Row", bound=Changed)


def change(session: Session, row: Row, changes: Mapping[str, object]) -> Row:
    """Merges the changes into the metadata of the row; null removes a key.

    The current jobs of the row carry the same metadata. They are locked before the row, as their
    ends do, and the job of a provisional answer before that of the final one.
    """
    jobs = [locked(session, id_, row.tenant_id) for id_ in _jobs_of(row)]
    table = type(row)
    # Lets other transactions refer to the row meanwhile.
    changed = session.scalar(
        select(table)
        .where(table.id == row.id, table.tenant_id == row.tenant_id)
        .with_for_update(key_share=True)
        .execution_options(populate_existing=True)
    )
    if changed is None:  # deleted meanwhile
        raise NotFound(_KINDS[table], row.id)
    values = caller_metadata.merged(changed.caller_metadata, changes)
    several: list[Described] = [changed, *jobs]
    for one in several:
        one.caller_metadata = values or None
    session.flush()
    caller_metadata.forget(session, [one.id for one in several])
    caller_metadata.write(session, several)
    return changed


_KINDS: dict[type, str] = {
    Gnn: "gnn",
    Dataset: "dataset",
    Denoiser: "denoiser",
    Explanation: "explanation",
    Evaluation: "evaluation",
    Comparison: "comparison",
    Webhook: "webhook",
}


def _jobs_of(row: Changed) -> list[str]:
    if isinstance(row, Explanation):
        return [id_ for id_ in (row.provisional_job_id, row.job_id) if id_ is not None]
    return [row.job_id] if isinstance(row, Gnn | Denoiser | Evaluation | Comparison) else []
