"""Denoisers: trained once per GNN, reference set, objective and config."""

from __future__ import annotations

import hashlib
import json

from sqlalchemy import select
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobKind, TrainingState
from d4explain.contracts.requests import DenoiserConfig
from store.catalogue import trained_networks
from store.catalogue.data_life.input_locks import lock_inputs
from store.database import artifact_ledger
from store.database.identifiers import new_id
from store.database.lists.filters import NO_FILTERS, Filters
from store.database.lists.paging import Page, page_of
from store.database.tables import Dataset, Denoiser, Gnn, Job
from store.database.tables.base import JsonObject
from store.errors import NotFound
from store.jobs.claims import Claim, held
from store.jobs.submission import submit

# A recipe whose network changed gets a new revision, so that its old denoisers are not found.
_REVISIONS = {"paper": 2}


def key(gnn_sha: str, dataset_sha: str, objective: str, config: DenoiserConfig) -> str:
    """The denoiser's identity: a hash of everything that its training depends on."""
    parts: list[object] = [gnn_sha, dataset_sha, objective, config.model_dump(mode="json")]
    revision = _REVISIONS.get(config.recipe)
    if revision is not None:
        parts.append(revision)
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def get_or_create(
    session: Session,
    *,
    gnn: Gnn,
    dataset: Dataset,
    objective: str,
    config: DenoiserConfig,
    estimated_seconds: float | None = None,  # of the training, if it is not known yet
) -> tuple[Denoiser, Job | None]:
    """Returns the denoiser and its training job; the job is None if the denoiser is ready."""
    lock_inputs(session, gnn, dataset)
    new = Denoiser(
        id=new_id("den"),
        tenant_id=gnn.tenant_id,
        key=key(gnn.sha256, dataset.sha256, objective, config),
        gnn_id=gnn.id,
        dataset_id=dataset.id,
        objective=objective,
        config=config.model_dump(mode="json"),
        state=TrainingState.TRAINING,
    )
    return trained_networks.get_or_train(session, new, _submit_training, estimated_seconds)


def get(session: Session, denoiser_id: str, tenant: str) -> Denoiser:
    denoiser = session.scalar(
        select(Denoiser)
        .where(Denoiser.id == denoiser_id, Denoiser.tenant_id == tenant)
        .execution_options(populate_existing=True)
    )
    if denoiser is None:
        raise NotFound("denoiser", denoiser_id)
    return denoiser


def is_ready(session: Session, identity: str, tenant: str) -> bool:
    """Whether the denoiser with this `key` needs no training."""
    return trained_networks.is_ready(session, Denoiser, identity, tenant)


def page(
    session: Session,
    cursor: str | None = None,
    limit: int = 50,
    *,
    tenant: str,
    gnn_id: str | None = None,
    state: TrainingState | None = None,
    filters: Filters = NO_FILTERS,
) -> Page[Denoiser]:
    query = select(Denoiser).where(Denoiser.tenant_id == tenant)
    query = filters.applied_to(query, Denoiser, tenant)
    if state is not None:
        query = query.where(Denoiser.state == state)
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
    denoiser.state = TrainingState.READY
    denoiser.weights_digest = weights_digest
    denoiser.weights_sha256 = weights_digest
    denoiser.shape = shape
    denoiser.metrics = metrics
    session.flush()
    artifact_ledger.refer(session, job.tenant_id, weights_digest)
    return denoiser


def _submit_training(session: Session, denoiser: Denoiser, retry_of: str | None) -> Job:
    return submit(
        session,
        kind=JobKind.TRAIN,
        subject_id=denoiser.id,
        gnn_id=denoiser.gnn_id,
        dataset_id=denoiser.dataset_id,
        denoiser_id=denoiser.id,
        retry_of=retry_of,
        seed=int(denoiser.config["seed"]),
        metadata=denoiser.caller_metadata,
        tenant=denoiser.tenant_id,
    )
