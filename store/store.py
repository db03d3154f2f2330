"""The store of one process: settings, database and artifacts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from store.artifacts.artifact_store import ArtifactStore
from store.artifacts.disk_space import DiskSpace
from store.database.job_policy import JobPolicy
from store.database.quotas import Limits, Quotas
from store.database.sessions import CONNECTIONS, Database
from store.errors import DiskFull
from store.jobs import workers
from store.metrics.metric_store import MetricStore
from store.settings import Settings


@dataclass(frozen=True)
class Store:
    settings: Settings
    database: Database
    artifacts: ArtifactStore
    disk: DiskSpace
    metrics: MetricStore

    @classmethod
    def open(
        cls, settings: Settings, *, migrate: bool = True, connections: int = CONNECTIONS
    ) -> Store:
        """With `migrate`, creates the tables of an empty database and checks any other one.

        `connections` is the number of threads that can use the database at once.
        """
        policy = JobPolicy(
            max_attempts=settings.max_attempts,
            redispatch_seconds=settings.redispatch_seconds,
            queue_seconds=settings.queue_hours * 3600,
            idempotency_seconds=settings.idempotency_hours * 3600,
        )
        artifacts = ArtifactStore(settings.artifacts)
        metrics = MetricStore(settings.redis_url, settings.metric_groups)
        database = Database(
            settings.database_url,
            policy=policy,
            connections=connections,
            artifact_size=lambda tenant, digest: artifacts.of(tenant).size(digest),
            limits=limits_of(settings),
            publish=metrics.publish,
        )
        try:
            if migrate:
                database.require_schema()
                if database.is_sqlite:
                    with database.reading() as session:
                        workers.require_one_machine(session)
        except BaseException:
            database.close()
            raise
        disk = DiskSpace(_folders(database, artifacts))
        return cls(settings, database, artifacts, disk, metrics)

    def require_room(self) -> None:
        """Raises `DiskFull` if there is too little disk space for new work."""
        shortage = self.disk.shortage()
        if shortage is not None:
            raise DiskFull(shortage)

    def close(self) -> None:
        self.database.close()
        self.metrics.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def limits_of(settings: Settings) -> Limits:
    """The quotas of tenants without their own, and the limit of the queue."""
    return Limits(
        Quotas(
            jobs=settings.tenant_jobs,
            work_seconds=settings.tenant_work_hours * 3600,
            stored_bytes=settings.tenant_stored_bytes,
            requests_per_second=settings.tenant_requests_per_second,
        ),
        settings.max_queued_jobs,
    )


def _folders(database: Database, artifacts: ArtifactStore) -> dict[str, Path]:
    """The local folders that the store writes to, by name."""
    found = {"artifacts": artifacts.folder, "the database": database.folder}
    return {name: folder for name, folder in found.items() if folder is not None}
