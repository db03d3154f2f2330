"""Deletes what is no longer needed, in the background of the process that leads."""

from __future__ import annotations

import time
from collections.abc import Callable

from store.access import temporary_tokens
from store.artifacts.artifact_store import ArtifactStore
from store.catalogue import idempotency
from store.database.sessions import Database, read_clock
from store.jobs import job_events, workers
from store.retention import expiry, purges, unused_artifacts
from store.retention.expiry import KEEP_ALL, Retention
from store.retention.unused_artifacts import MIN_AGE_SECONDS
from store.webhooks import endpoints

_DELIVERY_SECONDS = 30 * 24 * 3600.0  # how long the log of webhooks reaches back


def delete_released(
    database: Database, artifacts: ArtifactStore, should_stop: Callable[[], bool] = lambda: False
) -> int:
    """Deletes the artifacts of deleted resources; returns how many."""
    deleted = unused_artifacts.delete_released(database, artifacts, should_stop).count
    purges.verify(database, artifacts)
    return deleted


def delete_unneeded(
    database: Database,
    artifacts: ArtifactStore,
    *,
    retention: Retention = KEEP_ALL,
    min_age_seconds: float = MIN_AGE_SECONDS,
    should_stop: Callable[[], bool] = lambda: False,
) -> int:
    """Deletes expired resources and keys, old events and deliveries, and unused artifacts.

    Returns the number of deleted artifacts, without unfinished files.
    """
    with database.transaction() as session:
        idempotency.delete_expired(session)
        temporary_tokens.delete_expired(session)
        workers.delete_dead(session)
        at = read_clock(session)
        job_events.delete_progress(session, ended_before=at - min_age_seconds)
        endpoints.delete_old(session, before=at - _DELIVERY_SECONDS)
        unused_artifacts.forget_deleted(session, before=at - min_age_seconds)
        purges.forget(session)
    expiry.delete_expired(database, retention, should_stop=should_stop)
    unused_artifacts.compare_with_rows(database)
    artifacts.delete_unfinished(before=time.time() - min_age_seconds)
    unused_artifacts.release_unknown(database, artifacts, min_age_seconds)
    return delete_released(database, artifacts, should_stop)
