"""Removes what nobody needs any more: old checkpoints, expired keys, progress of ended jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from sqlalchemy import select
from sqlalchemy.orm import Session

from store.artifacts.files import Artifacts
from store.catalogue import idempotency
from store.database.sessions import Database, read_clock
from store.database.tables import Dataset, Denoiser, Explanation, Gnn, Job
from store.jobs import job_events, workers

# Artifacts are written before the rows that name them; this is how long that may take.
SPARE_SECONDS = 24 * 3600.0


def tidy(
    database: Database,
    artifacts: Artifacts,
    *,
    spare_seconds: float = SPARE_SECONDS,
    should_stop: Callable[[], bool] = lambda: False,
) -> int:
    """Returns how many artifacts were removed; unfinished files are not counted."""
    with database.transaction() as session:
        idempotency.forget_expired(session)
        workers.forget_silent(session)
        job_events.forget_progress(session, ended_before=read_clock(session) - spare_seconds)
    artifacts.delete_unfinished(before=time.time() - spare_seconds)
    # Listed first: whatever is named by a row afterwards is found in the second step.
    old = [listed for listed in artifacts.listed() if _age(listed.modified_at) > spare_seconds]
    with database.reading() as session:
        needed = set(_named(session))
    removed = 0
    for listed in old:
        if should_stop():
            break
        if listed.digest not in needed and _age(artifacts.modified_at(listed.digest)) > (
            spare_seconds
        ):
            artifacts.delete(listed.digest)
            removed += 1
    return removed


def _named(session: Session) -> Iterator[str]:
    """Every digest that some row names."""
    columns = (
        Gnn.weights_digest,
        Dataset.graphs_digest,
        Denoiser.weights_digest,
        Explanation.request_digest,
        Explanation.result_digest,
        Job.request_digest,
        Job.checkpoint["digest"].as_string(),
    )
    for column in columns:
        yield from (digest for digest in session.scalars(select(column)) if digest)


def _age(modified_at: float | None) -> float:
    """An artifact of unknown age counts as new: rather kept than lost."""
    return 0.0 if modified_at is None else time.time() - modified_at
