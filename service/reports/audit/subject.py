"""What an audit report is about: the stored evaluation and everything around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select
from sqlalchemy.orm import Session

from d4explain.contracts.evaluations.requests import EvaluationRequest
from d4explain.contracts.evaluations.results import ComparisonResult, EvaluationResult
from d4explain.contracts.evaluations.rows import EvaluationRow, ShardRows
from d4explain.contracts.features.gnn_names import GnnNames, gnn_names
from d4explain.contracts.requests import CanonicalGraph
from service.http.faults import reject
from service.reports.letters import sentence
from store.artifacts import graph_sets
from store.artifacts.files import TenantArtifacts
from store.catalogue import datasets, gnns
from store.catalogue.data_life import holds
from store.catalogue.evaluations import comparisons, evaluations
from store.database.clock import timestamp
from store.database.sessions import read_clock
from store.database.tables import Dataset, Evaluation, Gnn
from store.errors import Conflict, NotFound, OnHold
from store.retention.expiry import of_tenant, retention_of
from store.store import Store

PURPOSE_KEY = "intended_purpose"  # of the metadata
_DAY = 24 * 3600.0
_MAX_REPEATS = 5  # results of other evaluations that are read


@dataclass(frozen=True)
class Purpose:
    """What the GNN is for, and who said so."""

    text: str | None
    source: str


@dataclass(frozen=True)
class Repeat:
    """Another evaluation of the same request."""

    evaluation: str
    same_rows: bool


@dataclass(frozen=True)
class Comparison:
    id: str
    baseline: str
    candidate: str
    result: ComparisonResult


@dataclass(frozen=True)
class Keeping:
    """How long the evaluation is kept."""

    days: float  # 0: until somebody deletes it
    deleted_after: str | None
    hold_reason: str | None


@dataclass(frozen=True)
class Subject:
    """Everything that a report says, read at one time."""

    evaluation: str
    evaluated_at: str
    read_at: str
    result_sha256: str
    result: EvaluationResult
    request: EvaluationRequest
    gnn_id: str
    gnn: Gnn | None  # None: deleted since
    names: GnnNames
    reference: Dataset | None
    reference_id: str
    test_set: Dataset | None
    purpose: Purpose
    keeping: Keeping
    repeats: list[Repeat]
    comparison: Comparison | None
    edge_counts: NDArray[np.int64]  # of the instances
    rows_digests: tuple[str, ...]  # of the shards, in the order of the instances
    artifacts: TenantArtifacts

    def rows(self) -> Iterator[EvaluationRow]:
        """All rows by instance and explainer; one shard at a time is in memory."""
        for digest in self.rows_digests:
            yield from ShardRows.model_validate_json(self.artifacts.get(digest)).rows

    def graphs(self, instances: list[int]) -> list[CanonicalGraph]:
        packed = self.artifacts.get(self.request.graphs_sha256)
        return [graph_sets.unpack(packed, slice(i, i + 1))[0] for i in instances]

    def class_name(self, number: int) -> str:
        return self.names.class_name(number) or f"class {number}"

    @property
    def warnings(self) -> list[str]:
        """As sentences; those of one explainer begin with its name."""
        names = tuple(f"{one.explainer}:" for one in self.result.explainers)
        return [
            f"Explainer {text.rstrip('.')}." if text.startswith(names) else sentence(text)
            for text in self.result.warnings
        ]

    @property
    def gnn_title(self) -> str:
        return self.gnn_id if self.gnn is None else f"{self.gnn.name}@{self.gnn.version}"


def read_subject(
    store: Store,
    tenant: str,
    evaluation_id: str,
    *,
    purpose: str | None,
    comparison_id: str | None,
) -> Subject:
    """Raises Conflict if the evaluation has no figures yet."""
    artifacts = store.artifacts.of(tenant)
    with store.database.reading() as session:
        row = evaluations.get(session, evaluation_id, tenant)
        digest = row.result_digest
        if digest is None:
            raise Conflict(f"evaluation {row.id} has no figures yet; a report needs them")
        gnn = _existing_gnn(session, row.gnn_id, tenant)
        shards = evaluations.shards(session, row.id, tenant)
        others = _same_request(session, row)
        comparison = _comparison(session, row.id, comparison_id, tenant)
        keeping = _keeping(session, row, store)
        now = read_clock(session)
        reference = _existing_dataset(session, row.dataset_id, tenant)
        test_set = _existing_dataset(session, row.test_dataset_id, tenant)
    result = EvaluationResult.model_validate_json(artifacts.get(digest))
    packed = graph_sets.arrays(artifacts.get(row.graphs_digest))
    return Subject(
        evaluation=row.id,
        evaluated_at=timestamp(row.created_at),
        read_at=timestamp(now),
        result_sha256=digest,
        result=result,
        request=EvaluationRequest.model_validate_json(artifacts.get(row.request_digest)),
        gnn_id=row.gnn_id,
        gnn=gnn,
        names=GnnNames() if gnn is None else gnn_names(gnn.spec),
        reference=reference,
        reference_id=row.dataset_id,
        test_set=test_set,
        purpose=_purpose(purpose, row, gnn),
        keeping=keeping,
        repeats=_repeats(artifacts, others, result.rows_sha256),
        comparison=comparison,
        edge_counts=np.diff(packed.edge_ptr),
        rows_digests=tuple(shard.rows_digest or "" for shard in shards),
        artifacts=artifacts,
    )


def _purpose(stated: str | None, evaluation: Evaluation, gnn: Gnn | None) -> Purpose:
    """That of the request, else of the evaluation's metadata, else of the GNN's."""
    if stated is not None:
        return Purpose(stated, "by whoever asked for this report")
    for owner, metadata in (
        ("evaluation", evaluation.caller_metadata),
        ("GNN", None if gnn is None else gnn.caller_metadata),
    ):
        noted = (metadata or {}).get(PURPOSE_KEY)
        if isinstance(noted, str) and noted.strip():
            return Purpose(noted, f"in the metadata {PURPOSE_KEY} of the {owner}")
    return Purpose(None, "")


def _keeping(session: Session, row: Evaluation, store: Store) -> Keeping:
    days = of_tenant(session, row.tenant_id, retention_of(store.settings)).explanations
    reason = None
    try:
        holds.refuse_if_held(session, row.id, tenant=row.tenant_id)
    except OnHold as held:
        reason = str(held)
    deleted_after = timestamp(row.created_at + days * _DAY) if days else None
    return Keeping(days=days, deleted_after=deleted_after, hold_reason=reason)


def _same_request(session: Session, row: Evaluation) -> list[tuple[str, str]]:
    """Ids and result digests of other evaluations that asked the same of the same inputs."""
    query = (
        select(Evaluation.id, Evaluation.result_digest)
        .where(
            Evaluation.tenant_id == row.tenant_id,
            Evaluation.gnn_id == row.gnn_id,
            Evaluation.dataset_id == row.dataset_id,
            Evaluation.request_digest == row.request_digest,
            Evaluation.result_digest.is_not(None),
            Evaluation.id != row.id,
        )
        .order_by(Evaluation.created_at.desc())
        .limit(_MAX_REPEATS)
    )
    return [(id_, digest) for id_, digest in session.execute(query) if digest is not None]


def _repeats(
    artifacts: TenantArtifacts, others: list[tuple[str, str]], rows_sha256: str
) -> list[Repeat]:
    return [
        Repeat(
            id_,
            EvaluationResult.model_validate_json(artifacts.get(digest)).rows_sha256 == rows_sha256,
        )
        for id_, digest in others
    ]


def _comparison(
    session: Session, evaluation_id: str, comparison_id: str | None, tenant: str
) -> Comparison | None:
    if comparison_id is None:
        return None
    row = comparisons.get(session, comparison_id, tenant)
    if evaluation_id not in (row.baseline_id, row.candidate_id):
        reject(
            "comparison",
            f"is {row.id}, which compares {row.baseline_id} with {row.candidate_id}, not "
            f"{evaluation_id}",
            "query",
        )
    if row.result is None:
        raise Conflict(f"comparison {row.id} has no result yet")
    result = ComparisonResult.model_validate(row.result)
    return Comparison(row.id, row.baseline_id, row.candidate_id, result)


def _existing_gnn(session: Session, gnn_id: str, tenant: str) -> Gnn | None:
    try:
        return gnns.get(session, gnn_id, tenant)
    except NotFound:
        return None


def _existing_dataset(session: Session, dataset_id: str, tenant: str) -> Dataset | None:
    try:
        return datasets.get(session, dataset_id, tenant)
    except NotFound:
        return None
