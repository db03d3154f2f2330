"""Rows that several tests of the store create."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from d4explain.contracts.gnn_spec import GnnSpecDocument, parse_spec
from d4explain.contracts.probe_reports import ProbeReport
from d4explain.contracts.requests import DenoiserConfig
from d4explain.contracts.scopes import DEFAULT_TENANT
from store import jobs
from store.catalogue import datasets, denoisers, explanations, gnns, witness_sets
from store.catalogue.evaluations import evaluations
from store.catalogue.evaluations.evaluations import NewEvaluation
from store.database.tables import Dataset, Evaluation, Explanation, Gnn, Job
from store.jobs import Claim

SPEC = parse_spec(
    {
        "features": 1,
        "classes": 2,
        "layers": [{"type": "pool", "op": "sum"}, {"type": "linear", "out": 2}],
    }
)
PASSED = ProbeReport(passed=True, checks=[])


def claim_job(session: Session, job_id: str) -> Claim:
    claim = jobs.claim(session, job_id, "worker", 60)
    assert claim is not None
    return claim


def create_ready_gnn(
    session: Session,
    weights_digest: str = "1" * 64,
    *,
    name: str = "gnn",
    spec: GnnSpecDocument = SPEC,
    tenant: str = DEFAULT_TENANT,
) -> Gnn:
    gnn, job = gnns.create(
        session, name=name, spec=spec, weights_digest=weights_digest, tenant=tenant
    )
    claim = claim_job(session, job.id)
    gnns.finish(session, claim, PASSED)
    jobs.succeed(session, claim)
    return gnn


def create_dataset(
    session: Session,
    sha256: str = "2" * 64,
    *,
    features: int = 1,
    tenant: str = DEFAULT_TENANT,
) -> Dataset:
    return datasets.create(
        session,
        name="set",
        gnn_features=features,
        graphs_digest=sha256,
        sha256=sha256,
        graph_count=10,
        label_counts={"0": 4, "1": 6},
        max_nodes=9,
        mean_nodes=7.5,
        mean_edges=8.5,
        tenant=tenant,
    )


def create_explanation(
    session: Session,
    gnn: Gnn,
    dataset: Dataset,
    config: DenoiserConfig | None = None,
    *,
    judged: bool = False,
    provisional: bool = False,
    request_digest: str = "3" * 64,
) -> tuple[Explanation, Job]:
    """Creates the explanation, its job, and the denoiser if it does not exist yet.

    A judged explanation also has a witness set.
    """
    denoiser, training = denoisers.get_or_create(
        session,
        gnn=gnn,
        dataset=dataset,
        objective="counterfactual",
        config=config or DenoiserConfig(),
    )
    witness_set = witness_job = None
    if judged:
        witness_set, witness_job = witness_sets.get_or_create(session, gnn=gnn, dataset=dataset)
    return explanations.create(
        session,
        kind="counterfactual",
        gnn=gnn,
        dataset=dataset,
        denoiser=denoiser,
        train_job=training,
        witness_set=witness_set,
        witness_job=witness_job,
        request_digest=request_digest,
        provisional=provisional,
        seed=11,
    )


def create_evaluation(
    session: Session,
    gnn: Gnn,
    dataset: Dataset,
    *,
    instances: int = 5,
    shard_size: int = 2,
    trains: bool = False,
    digest: str = "6",
    metadata: dict[str, Any] | None = None,
) -> Evaluation:
    """Creates an evaluation with its shards; `trains`: they wait for a denoiser and witnesses."""
    denoiser = training = witnesses = judging = None
    if trains:
        denoiser, training = denoisers.get_or_create(
            session,
            gnn=gnn,
            dataset=dataset,
            objective="counterfactual",
            config=DenoiserConfig(),
        )
        witnesses, judging = witness_sets.get_or_create(session, gnn=gnn, dataset=dataset)
    return evaluations.create(
        session,
        NewEvaluation(
            gnn=gnn,
            dataset=dataset,
            test_dataset_id=dataset.id,
            denoiser=denoiser,
            train_job=training,
            witness_set=witnesses,
            witness_job=judging,
            explainers=["search"],
            instance_count=instances,
            shard_size=shard_size,
            instance_seconds=1.0,
            request_digest=digest * 64,
            graphs_digest="7" * 64,
            seed=3,
            metadata=metadata,
        ),
    )
