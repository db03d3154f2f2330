"""What denoisers and witness sets share: they are trained once and found by a key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, bindparam, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobState, TrainingState
from store.catalogue.data_life.deletions import delete_trained
from store.catalogue.data_life.holds import refuse_if_held
from store.database.sessions import read_clock
from store.database.tables import Dataset, Denoiser, Gnn, Job, Trained, WitnessSet
from store.jobs.submission import get, locked
from store.jobs.time_left import work_left

_NOTED_USE_SECONDS = 3600.0

Row = TypeVar("Row", Denoiser, WitnessSet)
Submit = Callable[[Session, Row, str | None], Job]  # the row and the job that it retries

_TABLES: tuple[type[Denoiser] | type[WitnessSet], ...] = (Denoiser, WitnessSet)
# Built once: every submission runs one, and building it takes as long as running it.
_BY_KEY: dict[type[Trained], Select[Any]] = {
    table: select(table)
    .where(table.tenant_id == bindparam("tenant"), table.key == bindparam("key"))
    .execution_options(populate_existing=True)
    for table in _TABLES
}
# Only a deletion of the row conflicts with this lock.
_KEPT_BY_KEY = {
    table: query.with_for_update(read=True, key_share=True) for table, query in _BY_KEY.items()
}


def by_key(
    session: Session, table: type[Row], key: str, tenant: str, *, lock: bool = False
) -> Row | None:
    """The row with this key; `lock` prevents its deletion until the transaction ends."""
    query = (_KEPT_BY_KEY if lock else _BY_KEY)[table]
    row: Row | None = session.scalar(query, {"tenant": tenant, "key": key})
    return row


def is_ready(session: Session, table: type[Row], key: str, tenant: str) -> bool:
    """Whether the row with this key needs no training."""
    row = by_key(session, table, key, tenant)
    return row is not None and row.state is TrainingState.READY


def seconds_left(
    session: Session, table: type[Row], key: str, whole: float, tenant: str
) -> float | None:
    """How long the training for this key still takes, of `whole`; None if the row is ready."""
    row = by_key(session, table, key, tenant)
    if row is None:
        return whole
    if row.state is TrainingState.READY:
        return None
    job = get(session, row.job_id, tenant)
    if job.state.is_terminal:  # a new request starts it again
        return whole
    left = work_left(job)
    return whole if left is None else left


def get_or_train(
    session: Session, new: Row, submit: Submit[Row], estimated_seconds: float | None
) -> tuple[Row, Job | None]:
    """The row with the key of `new`, or `new`; and its training job, None if the row is ready.

    Joins a running training, and restarts one that failed or was canceled. Lock the inputs before.
    """
    table = type(new)
    row = by_key(session, table, new.key, new.tenant_id, lock=True)
    if row is not None:
        # A ready row stays ready.
        is_trained = row.state is TrainingState.READY
        if is_trained:
            _note_use(session, row)
            return row, None
        return _join_training(session, row, submit, estimated_seconds)
    try:
        with session.begin_nested():
            job = submit(session, new, None)
            job.estimated_seconds = estimated_seconds
            new.job_id = job.id
            new.created_at = job.created_at
            session.add(new)
            session.flush()
            return new, job
    except IntegrityError:  # another transaction was first
        first = by_key(session, table, new.key, new.tenant_id, lock=True)
        if first is None:  # and was deleted since
            return get_or_train(session, new, submit, estimated_seconds)
        return _join_training(session, first, submit, estimated_seconds)


def _note_use(session: Session, row: Trained) -> None:
    """Notes the use, at most once an hour, so that most submissions write nothing."""
    at = read_clock(session)
    if at - (row.used_at or row.created_at) > _NOTED_USE_SECONDS:
        row.used_at = at
        session.flush()


def release_gnn(session: Session, gnn: Gnn) -> None:
    """Moves what was trained for the GNN to a GNN with the same content, or deletes it."""
    twin = session.scalar(
        select(Gnn.id)
        .where(Gnn.tenant_id == gnn.tenant_id, Gnn.sha256 == gnn.sha256, Gnn.id != gnn.id)
        .limit(1)
    )
    for table in _TABLES:
        mine = table.gnn_id == gnn.id
        if twin is None:
            _delete(session, table, mine)
        else:
            session.execute(update(table).where(mine).values(gnn_id=twin))


def release_dataset(session: Session, dataset: Dataset) -> None:
    """Moves what was trained for the set to a set with the same content, or deletes it."""
    twin = session.scalar(
        select(Dataset.id)
        .where(
            Dataset.tenant_id == dataset.tenant_id,
            Dataset.sha256 == dataset.sha256,
            Dataset.id != dataset.id,
        )
        .limit(1)
    )
    for table in _TABLES:
        mine = table.dataset_id == dataset.id
        if twin is None:
            _delete(session, table, mine)
        else:
            session.execute(update(table).where(mine).values(dataset_id=twin))


def _delete(
    session: Session, table: type[Denoiser] | type[WitnessSet], condition: ColumnElement[bool]
) -> None:
    query = select(table).where(condition).order_by(table.id).with_for_update()
    for row in session.scalars(query).all():
        refuse_if_held(session, row.id, tenant=row.tenant_id)
        delete_trained(session, row)


def _join_training(
    session: Session, row: Row, submit: Submit[Row], estimated_seconds: float | None
) -> tuple[Row, Job | None]:
    # Lock the training, as its end does. A waiting job is then either written before the training
    # ends, or it sees the end. This lock also protects `job_id` and `state` of the row. A lock of
    # the row could deadlock: this function may lock two trainings, one after the other.
    job = locked(session, row.job_id, row.tenant_id)
    session.refresh(row)
    if row.state is TrainingState.READY:
        return row, None
    if row.job_id != job.id:  # restarted while this transaction waited for the lock
        return _join_training(session, row, submit, estimated_seconds)
    if not job.state.is_terminal:
        return row, job
    again = submit(session, row, job.id)
    again.estimated_seconds = estimated_seconds or job.estimated_seconds
    if job.state is not JobState.FAILED:  # it did not fail by itself, so its checkpoint is usable
        again.checkpoint = job.checkpoint
    row.state = TrainingState.TRAINING
    row.job_id = again.id
    session.flush()
    return row, again
