"""The store of one process, opened: settings, database and artifacts."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Self

from store.artifacts import Artifacts
from store.database import Database
from store.job_policy import JobPolicy
from store.settings import Settings


@dataclass(frozen=True)
class Store:
    settings: Settings
    database: Database
    artifacts: Artifacts

    @classmethod
    def open(cls, settings: Settings, *, migrate: bool = True) -> Store:
        policy = JobPolicy(
            max_attempts=settings.max_attempts,
            redispatch_seconds=settings.redispatch_seconds,
            queue_seconds=settings.queue_hours * 3600,
            idempotency_seconds=settings.idempotency_hours * 3600,
        )
        database = Database(settings.database_url, policy=policy)
        try:
            artifacts = Artifacts(settings.artifacts)
            if migrate:
                database.migrate()
        except BaseException:
            database.close()
            raise
        return cls(settings, database, artifacts)

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
