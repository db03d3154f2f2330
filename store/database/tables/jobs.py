"""The tables of jobs: their rows, events and totals."""

from __future__ import annotations

from sqlalchemy import BigInteger, ColumnElement, ForeignKey, Index, String, or_
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import Mapped, mapped_column

from d4explain.contracts.job_states import EventType, JobKind, JobState, Queue
from store.database.clock import now
from store.database.tables.base import DIGEST, ID, SERIAL, JsonObject, Resource, Table


class Job(Resource):
    """One unit of asynchronous work; messages in the queue only refer to it."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index("jobs_by_time", "tenant_id", "created_at", "id"),
        Index("jobs_to_dispatch", "state", "next_dispatch_at"),
        Index("jobs_by_lease", "state", "lease_until"),
        Index("jobs_by_waiting_for", "waiting_for"),
        Index("jobs_by_also_waiting_for", "also_waiting_for"),
        Index("jobs_by_waiting_for_provisional", "waiting_for_provisional"),
        Index("jobs_by_gnn", "gnn_id"),
        Index("jobs_by_dataset", "dataset_id"),
        Index("jobs_by_retry_of", "retry_of", unique=True),  # a job is retried once
        Index("jobs_by_subject", "subject_id"),
        Index("jobs_by_state", "tenant_id", "state"),
    )

    kind: Mapped[JobKind]
    queue: Mapped[Queue]
    # Workers claim formats up to the one that they know (`store.jobs.submission`).
    format: Mapped[int] = mapped_column(default=1, server_default="1")
    state: Mapped[JobState] = mapped_column(default=JobState.QUEUED)
    attempt: Mapped[int] = mapped_column(default=0)  # number of begun attempts; the fencing token
    releases: Mapped[int] = mapped_column(default=0)  # attempts that do not count
    max_attempts: Mapped[int]
    priority: Mapped[int]  # 0 is served first
    # The worker of a running job, or the worker that reserved a queued job.
    lease_owner: Mapped[str | None] = mapped_column(String(200))
    lease_until: Mapped[float | None]
    cancel_requested: Mapped[bool] = mapped_column(default=False)
    waiting_for: Mapped[str | None] = mapped_column(ID, ForeignKey("jobs.id"))
    # A second job to wait for. No foreign key: SQLite cannot add one to a table in place.
    also_waiting_for: Mapped[str | None] = mapped_column(ID)
    # The job of the provisional answer, which ends before the final one starts.
    waiting_for_provisional: Mapped[str | None] = mapped_column(ID)
    # True of an evaluation while some of its shards have not ended; else null.
    waiting_for_shards: Mapped[bool | None]
    subject_id: Mapped[str | None] = mapped_column(ID)
    # No foreign keys: a job outlives the resources that it used.
    gnn_id: Mapped[str | None] = mapped_column(ID)
    dataset_id: Mapped[str | None] = mapped_column(ID)
    denoiser_id: Mapped[str | None] = mapped_column(ID)
    witness_set_id: Mapped[str | None] = mapped_column(ID)
    request_digest: Mapped[str | None] = mapped_column(DIGEST)
    result: Mapped[JsonObject | None]
    error: Mapped[JsonObject | None]  # {type, message, attempts: [{attempt, type, message, at}]}
    progress: Mapped[JsonObject | None]  # {phase, step, total, metrics}
    checkpoint: Mapped[JsonObject | None]  # {digest, step}
    retry_of: Mapped[str | None] = mapped_column(ID, ForeignKey("jobs.id"))
    seed: Mapped[int] = mapped_column(BigInteger, default=0)
    estimated_seconds: Mapped[float | None]  # of the work alone, on one core
    started_at: Mapped[float | None]
    finished_at: Mapped[float | None]
    expires_at: Mapped[float | None]
    next_dispatch_at: Mapped[float] = mapped_column(default=now())
    dispatches: Mapped[int] = mapped_column(default=0)
    caller_metadata: Mapped[JsonObject | None]  # of what it makes; of a prediction, its own

    @property
    def attempts_used(self) -> int:
        return self.attempt - self.releases

    @property
    def awaited(self) -> str | None:
        """The job that has to end before this one may run, or one of several."""
        return self.waiting_for or self.also_waiting_for or self.waiting_for_provisional

    @hybrid_property
    def is_blocked(self) -> bool:
        """Whether it waits for other jobs."""
        return self.awaited is not None or bool(self.waiting_for_shards)

    @is_blocked.inplace.expression
    @classmethod
    def _is_blocked(cls) -> ColumnElement[bool]:
        return or_(
            cls.waiting_for.is_not(None),
            cls.also_waiting_for.is_not(None),
            cls.waiting_for_provisional.is_not(None),
            cls.waiting_for_shards.is_(True),
        )


class JobTotal(Table):
    """Total number of jobs that ended, by kind and state."""

    __tablename__ = "job_totals"

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    kind: Mapped[JobKind] = mapped_column(primary_key=True)
    state: Mapped[JobState] = mapped_column(primary_key=True)
    count: Mapped[int] = mapped_column(BigInteger)


class JobEvent(Table):
    """The append-only event log of a job."""

    __tablename__ = "job_events"
    __table_args__ = (Index("job_events_by_job", "job_id", "id"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(SERIAL, primary_key=True, autoincrement=True)
    tenant_id: Mapped[str] = mapped_column(String(64))
    job_id: Mapped[str] = mapped_column(ID, ForeignKey("jobs.id", ondelete="CASCADE"))
    type: Mapped[EventType]
    data: Mapped[JsonObject]
    at: Mapped[float] = mapped_column(default=now())
