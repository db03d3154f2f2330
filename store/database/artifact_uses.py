"""Which rows refer to which artifacts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from store.database.tables import (
    Comparison,
    Dataset,
    Denoiser,
    Evaluation,
    EvaluationShard,
    Explanation,
    Gnn,
    Job,
    Replay,
    WitnessSet,
)

CHECKPOINT = "checkpoint"
# Every column with the digest of an artifact, and what it stores.
COLUMNS = (
    (Gnn, Gnn.weights_digest, "weights"),
    (Dataset, Dataset.graphs_digest, "graphs"),
    (Denoiser, Denoiser.weights_digest, "weights"),
    (WitnessSet, WitnessSet.weights_digest, "weights"),
    (Explanation, Explanation.request_digest, "request"),
    (Explanation, Explanation.result_digest, "result"),
    (Explanation, Explanation.provisional_digest, "provisional result"),
    (Replay, Replay.answer_digest, "replayed answer"),
    (Evaluation, Evaluation.request_digest, "request"),
    (Evaluation, Evaluation.graphs_digest, "instances"),
    (Evaluation, Evaluation.result_digest, "result"),
    (Evaluation, Evaluation.parquet_digest, "rows as Parquet"),
    (EvaluationShard, EvaluationShard.rows_digest, "rows"),
    (Comparison, Comparison.request_digest, "request"),
    (Job, Job.request_digest, "request"),
    (Job, Job.checkpoint["digest"].as_string(), CHECKPOINT),
)
_MAX_LISTED = 500  # digests in one query

Key = tuple[str, str]  # tenant and digest


class ArtifactUse(NamedTuple):
    tenant: str
    digest: str
    row: str  # the id of the row that refers to it
    what: str

    @property
    def key(self) -> Key:
        return self.tenant, self.digest


def referenced(session: Session) -> Iterator[ArtifactUse]:
    """Every reference of a row to an artifact."""
    for table, column, what in COLUMNS:
        for tenant, row, digest in session.execute(select(table.tenant_id, table.id, column)):
            if digest:
                yield ArtifactUse(tenant, digest, row, what)


def users_of(session: Session, keys: Iterable[Key]) -> dict[Key, list[str]]:
    """The ids of the rows that refer to these artifacts; unused ones are left out."""
    wanted = sorted(keys)
    users: defaultdict[Key, set[str]] = defaultdict(set)
    for first in range(0, len(wanted), _MAX_LISTED):
        few = set(wanted[first : first + _MAX_LISTED])
        digests = {digest for _, digest in few}
        for table, column, _ in COLUMNS:
            query = select(table.tenant_id, column, table.id).where(column.in_(digests))
            for tenant, digest, row in session.execute(query):
                if (tenant, digest) in few:
                    users[tenant, digest].add(row)
    return {key: sorted(ids) for key, ids in users.items()}
