"""Deletes unneeded data: unreferenced artifacts, expired keys, old events and deliveries."""

from __future__ import annotations

import time
from collections.abc import Callable

from store.artifacts.files import Artifacts
from store.catalogue import idempotency
from store.catalogue.artifact_uses import referenced
from store.database.sessions import Database, read_clock
from store.jobs import job_events, workers
from store.webhooks import endpoints

# An artifact is written before the row that references it; this is the longest time between.
MIN_AGE_SECONDS = 24 * 3600.0
_DELIVERY_SECONDS = 30 * 24 * 3600.0  # how long the log of webhooks reaches back


def delete_unneeded(
    database: Database,
    artifacts: Artifacts,
    *,
    min_age_seconds: float = MIN_AGE_SECONDS,
    should_stop: Callable[[], bool] = lambda: False,
) -> int:
    """Returns the number of deleted artifacts, without unfinished files."""
    with database.transaction() as session:
        idempotency.delete_expired(session)
        workers.delete_dead(session)
        at = read_clock(session)
        job_events.delete_progress(session, ended_before=at - min_age_seconds)
        endpoints.delete_old(session, before=at - _DELIVERY_SECONDS)
    artifacts.delete_unfinished(before=time.time() - min_age_seconds)
    # List the files before reading the rows, so that no new reference is missed.
    old = [listed for listed in artifacts.listed() if _age(listed.modified_at) > min_age_seconds]
    with database.reading() as session:
        needed = {use.digest for use in referenced(session)}
    deleted = 0
    for listed in old:
        if should_stop():
            break
        if listed.digest not in needed and _age(artifacts.modified_at(listed.digest)) > (
            min_age_seconds
        ):
            artifacts.delete(listed.digest)
            deleted += 1
    return deleted


def _age(modified_at: float | None) -> float:
    """An artifact of unknown age counts as new, so that it is kept."""
    return 0.0 if modified_at is None else time.time() - modified_at
