"""Locks that keep the inputs of a job from being deleted while the job is written."""

from __future__ import annotations

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from store.database.tables import Dataset, Gnn
from store.errors import NotFound

# Built once: every submission runs these, and building one takes as long as running it.
_LOCK_SHARED = {
    kind: select(table.id)
    .where(table.id == bindparam("id"), table.tenant_id == bindparam("tenant"))
    .with_for_update(read=True, key_share=True)
    for kind, table in (("gnn", Gnn), ("dataset", Dataset))
}


def lock_inputs(session: Session, gnn: Gnn, dataset: Dataset) -> None:
    """Prevents the deletion of both until the transaction ends.

    NotFound if one is deleted, or if the dataset belongs to another tenant.
    """
    for kind, id_ in (("gnn", gnn.id), ("dataset", dataset.id)):
        values = {"id": id_, "tenant": gnn.tenant_id}
        if session.connection().execute(_LOCK_SHARED[kind], values).scalar() is None:
            raise NotFound(kind, id_)
