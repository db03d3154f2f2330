"""Locks that keep the inputs of a job from being deleted while the job is written."""

from __future__ import annotations

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from store.database.tables import Dataset, Gnn
from store.errors import NotFound

# Built once: every submission runs these, and building one takes as long as running it.
_LOCK_SHARED = {
    kind: select(column).where(column == bindparam("id")).with_for_update(read=True, key_share=True)
    for kind, column in (("gnn", Gnn.id), ("dataset", Dataset.id))
}


def lock_inputs(session: Session, gnn: Gnn, dataset: Dataset) -> None:
    """Prevents the deletion of both until the transaction ends; NotFound if one is deleted."""
    for kind, id_ in (("gnn", gnn.id), ("dataset", dataset.id)):
        if session.connection().execute(_LOCK_SHARED[kind], {"id": id_}).scalar() is None:
            raise NotFound(kind, id_)
