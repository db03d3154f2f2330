"""Witness sets: trained once per GNN and reference set."""

from __future__ import annotations

import hashlib
import json
import math

from sqlalchemy import select
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobKind, TrainingState
from store.catalogue import trained_networks
from store.catalogue.data_life.input_locks import lock_inputs
from store.database import artifact_ledger
from store.database.identifiers import new_id
from store.database.tables import Dataset, Gnn, Job, WitnessSet
from store.database.tables.base import JsonObject
from store.errors import NotFound
from store.jobs.claims import Claim, held
from store.jobs.submission import submit

# Of the training in `models.witnesses`. Raise it when that changes: stored sets are then not used.
# A test compares it with the code.
VERSION = 4

# Sizes of the training in `models.witnesses`, which needs torch.
WITNESSES = 15
MAX_GRAPHS = 4000
_MIN_STEPS, _EPOCHS = 600, 30
_STOPPING_GRAPHS, _STEPS_TAKEN = 667, 0.6  # larger sets stop after about this share of the steps


def training_seconds(graph_count: int, mean_size: float) -> float:
    """Estimated time of a training on one CPU core, as an order of magnitude.

    `mean_size` is the mean number of nodes and edges. The constants are fitted to sets of 100 to
    2,000 graphs with 20 to 60 nodes.
    """
    count = min(graph_count, MAX_GRAPHS)
    batch = min(128, max(16, count // 8))
    steps: float = max(_MIN_STEPS, _EPOCHS * math.ceil(count / batch))
    if count >= _STOPPING_GRAPHS:
        steps *= _STEPS_TAKEN
    return WITNESSES * steps * (2e-3 + batch * (4.5e-5 + 6.3e-7 * mean_size))


def key(gnn_sha: str, dataset_sha: str) -> str:
    """The set's identity: a hash of everything that its training depends on."""
    parts = [gnn_sha, dataset_sha, VERSION]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def get_or_create(
    session: Session,
    *,
    gnn: Gnn,
    dataset: Dataset,
    estimated_seconds: float | None = None,  # of the training, if it is not known yet
) -> tuple[WitnessSet, Job | None]:
    """Returns the witness set and its training job; the job is None if the set is ready."""
    lock_inputs(session, gnn, dataset)
    new = WitnessSet(
        id=new_id("wit"),
        tenant_id=gnn.tenant_id,
        key=key(gnn.sha256, dataset.sha256),
        gnn_id=gnn.id,
        dataset_id=dataset.id,
        state=TrainingState.TRAINING,
    )
    return trained_networks.get_or_train(session, new, _submit_training, estimated_seconds)


def get(session: Session, witness_set_id: str, tenant: str) -> WitnessSet:
    row = session.scalar(
        select(WitnessSet)
        .where(WitnessSet.id == witness_set_id, WitnessSet.tenant_id == tenant)
        .execution_options(populate_existing=True)
    )
    if row is None:
        raise NotFound("witness set", witness_set_id)
    return row


def finish(
    session: Session,
    claim: Claim,
    *,
    weights_digest: str,
    description: JsonObject,
    metrics: JsonObject,
) -> WitnessSet:
    """Makes the set ready; call in the transaction that ends the training job."""
    job = held(session, claim)
    row = get(session, job.witness_set_id or "", job.tenant_id)
    row.state = TrainingState.READY
    row.weights_digest = weights_digest
    row.description = description
    row.metrics = metrics
    session.flush()
    artifact_ledger.refer(session, job.tenant_id, weights_digest)
    return row


def _submit_training(session: Session, row: WitnessSet, retry_of: str | None) -> Job:
    return submit(
        session,
        kind=JobKind.WITNESSES,
        subject_id=row.id,
        gnn_id=row.gnn_id,
        dataset_id=row.dataset_id,
        witness_set_id=row.id,
        retry_of=retry_of,
        tenant=row.tenant_id,
    )
