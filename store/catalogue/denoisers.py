"""Denoisers: trained once per GNN, reference set, objective and config."""

from __future__ import annotations

import hashlib
import json

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import DenoiserState, JobKind, JobState
from d4explain.contracts.requests import DenoiserConfig
from store.catalogue.input_locks import lock_inputs
from store.database.identifiers import new_id
from store.database.paging import Page, page_of
from store.database.tables import Dataset, Denoiser, Gnn, Job, JsonObject
from store.errors import NotFound
from store.jobs.claims import Claim, held
from store.jobs.submission import locked, submit

# Built once: every submission runs it, and building it takes as long as running it.
_BY_KEY = (
    select(Denoiser)
    .where(Denoiser.tenant_id == bindparam("tenant"), Denoiser.key == bindparam("key"))
    .execution_options(populate_existing=True)
)


def key(gnn_sha: str, dataset_sha: str, objective: str, config: DenoiserConfig) -> str:
    """The denoiser's identity: a hash of everything that its training depends on."""
    parts = [gnn_sha, dataset_sha, objective, config.model_dump(mode="json")]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def get_or_create(
    session: Session,
    *,
    gnn: Gnn,
    dataset: Dataset,
    objective: str,
    config: DenoiserConfig,
    tenant: str = "default",
) -> tuple[Denoiser, Job | None]:
    """Returns the denoiser and its training job; the job is None if the denoiser is ready.

    Joins a running training, and restarts one that failed or was canceled.
    """
    lock_inputs(session, gnn, dataset)
    identity = key(gnn.sha256, dataset.sha256, objective, config)
    denoiser = _by_key(session, identity, tenant)
    if denoiser is not None:
        # A ready denoiser stays ready, so no lock is needed.
        is_ready = denoiser.state is DenoiserState.READY
        return (denoiser, None) if is_ready else _join_training(session, denoiser)
    new = Denoiser(
        id=new_id("den"),
        tenant_id=tenant,
        key=identity,
        gnn_id=gnn.id,
        dataset_id=dataset.id,
        objective=objective,
        config=config.model_dump(mode="json"),
        state=DenoiserState.TRAINING,
    )
    try:
        with session.begin_nested():
            return new, _start_training(session, new)
    except IntegrityError:  # another transaction was first
        first = _by_key(session, identity, tenant)
        assert first is not None
        return _join_training(session, first)


def get(session: Session, denoiser_id: str, tenant: str = "default") -> Denoiser:
    denoiser = session.scalar(
        select(Denoiser)
        .where(Denoiser.id == denoiser_id, Denoiser.tenant_id == tenant)
        .execution_options(populate_existing=True)
    )
    if denoiser is None:
        raise NotFound("denoiser", denoiser_id)
    return denoiser


def is_ready(session: Session, identity: str, tenant: str = "default") -> bool:
    """Whether the denoiser with this `key` needs no training."""
    denoiser = _by_key(session, identity, tenant)
    return denoiser is not None and denoiser.state is DenoiserState.READY


def page(
    session: Session,
    cursor: str | None = None,
    limit: int = 50,
    tenant: str = "default",
    *,
    gnn_id: str | None = None,
) -> Page[Denoiser]:
    query = select(Denoiser).where(Denoiser.tenant_id == tenant)
    if gnn_id is not None:
        query = query.where(Denoiser.gnn_id == gnn_id)
    return page_of(session, query, Denoiser, cursor, limit)


def finish(
    session: Session,
    claim: Claim,
    *,
    weights_digest: str,
    shape: JsonObject,
    metrics: JsonObject,
) -> Denoiser:
    """Makes the denoiser ready; call in the transaction that ends the training job."""
    job = held(session, claim)
    denoiser = get(session, job.denoiser_id or "", job.tenant_id)
    denoiser.state = DenoiserState.READY
    denoiser.weights_digest = weights_digest
    denoiser.weights_sha256 = weights_digest
    denoiser.shape = shape
    denoiser.metrics = metrics
    session.flush()
    return denoiser


def release_gnn(session: Session, gnn: Gnn) -> None:
    """Moves the GNN's denoisers to a GNN with the same content, or deletes them."""
    twin = session.scalar(
        select(Gnn.id)
        .where(Gnn.tenant_id == gnn.tenant_id, Gnn.sha256 == gnn.sha256, Gnn.id != gnn.id)
        .limit(1)
    )
    mine = Denoiser.gnn_id == gnn.id
    if twin is None:
        session.execute(delete(Denoiser).where(mine))
    else:
        session.execute(update(Denoiser).where(mine).values(gnn_id=twin))


def release_dataset(session: Session, dataset: Dataset) -> None:
    """Moves the set's denoisers to a set with the same content, or deletes them."""
    twin = session.scalar(
        select(Dataset.id)
        .where(
            Dataset.tenant_id == dataset.tenant_id,
            Dataset.sha256 == dataset.sha256,
            Dataset.id != dataset.id,
        )
        .limit(1)
    )
    mine = Denoiser.dataset_id == dataset.id
    if twin is None:
        session.execute(delete(Denoiser).where(mine))
    else:
        session.execute(update(Denoiser).where(mine).values(dataset_id=twin))


def _start_training(session: Session, denoiser: Denoiser) -> Job:
    job = _submit_training(session, denoiser)
    denoiser.job_id = job.id
    denoiser.created_at = job.created_at
    session.add(denoiser)
    session.flush()
    return job


def _join_training(session: Session, denoiser: Denoiser) -> tuple[Denoiser, Job | None]:
    # Lock the training before the denoiser, as the end of a training does. A waiting job is then
    # either written before the training ends, or it sees the end.
    job = locked(session, denoiser.job_id, denoiser.tenant_id)
    session.refresh(denoiser, with_for_update=True)
    if denoiser.state is DenoiserState.READY:
        return denoiser, None
    if denoiser.job_id != job.id:  # restarted while this transaction waited for the lock
        return _join_training(session, denoiser)
    if not job.state.is_terminal:
        return denoiser, job
    again = _submit_training(session, denoiser, retry_of=job.id)
    if job.state is not JobState.FAILED:  # it did not fail by itself, so its checkpoint is usable
        again.checkpoint = job.checkpoint
    denoiser.state = DenoiserState.TRAINING
    denoiser.job_id = again.id
    session.flush()
    return denoiser, again


def _submit_training(session: Session, denoiser: Denoiser, retry_of: str | None = None) -> Job:
    return submit(
        session,
        kind=JobKind.TRAIN,
        subject_id=denoiser.id,
        gnn_id=denoiser.gnn_id,
        dataset_id=denoiser.dataset_id,
        denoiser_id=denoiser.id,
        retry_of=retry_of,
        seed=int(denoiser.config["seed"]),
        tenant=denoiser.tenant_id,
    )


def _by_key(session: Session, identity: str, tenant: str) -> Denoiser | None:
    return session.scalar(_BY_KEY, {"tenant": tenant, "key": identity})
