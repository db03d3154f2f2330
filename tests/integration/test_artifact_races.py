"""Uploads, deletions and quotas of several processes on a real PostgreSQL server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from store.artifacts.artifact_store import ArtifactStore
from store.database import quotas
from store.database.quotas import Limits, Quotas
from store.database.sessions import Database
from store.errors import QuotaExceeded
from store.jobs import JobKind, submit
from tests.unit.store.retention.test_unused_artifacts import UPLOADS, race


def test_uploads_race_with_the_deletion_of_the_same_content(
    postgres_url: str, tmp_path: Path
) -> None:
    database = Database(postgres_url)
    database.migrate()
    database.close()
    assert race(postgres_url, ArtifactStore(str(tmp_path / "artifacts"))) >= UPLOADS


def test_processes_together_get_exactly_the_quota(postgres_url: str) -> None:
    several = [Database(postgres_url, limits=Limits(Quotas(jobs=5))) for _ in range(4)]
    several[0].migrate()

    def accepted(at: int) -> bool:
        try:
            with several[at % len(several)].transaction() as session:
                submit(session, kind=JobKind.PREDICT, tenant="limited")
                quotas.enforce(session, "limited")
        except QuotaExceeded:
            return False
        return True

    with ThreadPoolExecutor(len(several)) as threads:
        assert sum(threads.map(accepted, range(20))) == 5
    for one in several:
        one.close()
