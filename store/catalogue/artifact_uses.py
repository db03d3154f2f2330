"""Which rows refer to which artifacts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from store.database.tables import Dataset, Denoiser, Explanation, Gnn, Job, Replay, WitnessSet

CHECKPOINT = "checkpoint"
# Every column with the digest of an artifact, and what it stores.
COLUMNS = (
    (Gnn.id, Gnn.weights_digest, "weights"),
    (Dataset.id, Dataset.graphs_digest, "graphs"),
    (Denoiser.id, Denoiser.weights_digest, "weights"),
    (WitnessSet.id, WitnessSet.weights_digest, "weights"),
    (Explanation.id, Explanation.request_digest, "request"),
    (Explanation.id, Explanation.result_digest, "result"),
    (Explanation.id, Explanation.provisional_digest, "provisional result"),
    (Replay.id, Replay.answer_digest, "replayed answer"),
    (Job.id, Job.request_digest, "request"),
    (Job.id, Job.checkpoint["digest"].as_string(), CHECKPOINT),
)


class ArtifactUse(NamedTuple):
    digest: str
    row: str  # the id of the row that refers to it
    what: str


def referenced(session: Session) -> Iterator[ArtifactUse]:
    """Every reference of a row to an artifact."""
    for id_, column, what in COLUMNS:
        for row, digest in session.execute(select(id_, column)):
            if digest:
                yield ArtifactUse(digest, row, what)
