"""The tables of the store. Times are seconds since the epoch by the database's clock."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    ForeignKey,
    Index,
    String,
    Text,
    UniqueConstraint,
    or_,
)
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import Mapped, mapped_column

from d4explain.contracts.job_states import (
    EventType,
    GnnState,
    JobKind,
    JobState,
    Queue,
    Stage,
    TrainingState,
)
from d4explain.contracts.scopes import DEFAULT_TENANT
from store.database.access_tables import ApiKey, TemporaryToken
from store.database.clock import now
from store.database.table_base import (
    DIGEST,
    ID,
    SERIAL,
    JsonObject,
    JsonTexts,
    Resource,
    Table,
)

__all__ = [
    "ApiKey",
    "ArtifactEntry",
    "Dataset",
    "Deletion",
    "Denoiser",
    "Explanation",
    "Gnn",
    "GnnAlias",
    "GnnName",
    "Hold",
    "IdempotencyKey",
    "Job",
    "JobEvent",
    "JobTotal",
    "Lead",
    "Replay",
    "Table",
    "TemporaryToken",
    "TenantPolicy",
    "TenantUsage",
    "Trained",
    "WitnessSet",
    "Worker",
]


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

    @property
    def attempts_used(self) -> int:
        return self.attempt - self.releases

    @property
    def awaited(self) -> str | None:
        """The job that has to end before this one may run, or one of several."""
        return self.waiting_for or self.also_waiting_for or self.waiting_for_provisional

    @hybrid_property
    def is_blocked(self) -> bool:
        """Whether it waits for another job."""
        return self.awaited is not None

    @is_blocked.inplace.expression
    @classmethod
    def _is_blocked(cls) -> ColumnElement[bool]:
        return or_(
            cls.waiting_for.is_not(None),
            cls.also_waiting_for.is_not(None),
            cls.waiting_for_provisional.is_not(None),
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


class Gnn(Resource):
    """A trained classifier to explain."""

    __tablename__ = "gnns"
    __table_args__ = (
        Index("gnns_by_time", "tenant_id", "created_at", "id"),
        Index("gnns_by_content", "tenant_id", "sha256"),
        Index("gnns_by_name", "tenant_id", "name", "version", unique=True),
    )

    name: Mapped[str] = mapped_column(String(200))
    version: Mapped[int]  # consecutive per name, assigned by GnnName
    description: Mapped[str | None] = mapped_column(Text)
    tags: Mapped[JsonObject] = mapped_column(default=dict)  # {"stage": "beta", …}
    sha256: Mapped[str] = mapped_column(DIGEST)  # of spec and weights
    spec: Mapped[JsonObject]
    weights_digest: Mapped[str] = mapped_column(DIGEST)
    state: Mapped[GnnState] = mapped_column(default=GnnState.PROBING)
    report: Mapped[JsonObject | None]
    job_id: Mapped[str] = mapped_column(ID, ForeignKey("jobs.id"))


class GnnName(Table):
    """Counts the versions of a name; it outlives them, so no version number is reused."""

    __tablename__ = "gnn_names"

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    last_version: Mapped[int]


class DatasetName(Table):
    """Counts the versions of a reference set's name, as `GnnName` does."""

    __tablename__ = "dataset_names"

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    last_version: Mapped[int]


class GnnAlias(Table):
    """An alias such as `production` for one version of a name."""

    __tablename__ = "gnn_aliases"
    __table_args__ = (Index("gnn_aliases_by_gnn", "gnn_id"),)

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    alias: Mapped[str] = mapped_column(String(64), primary_key=True)
    gnn_id: Mapped[str] = mapped_column(ID, ForeignKey("gnns.id"))


class Dataset(Resource):
    """Graphs of the distribution a GNN was trained on."""

    __tablename__ = "datasets"
    __table_args__ = (
        Index("datasets_by_time", "tenant_id", "created_at", "id"),
        Index("datasets_by_content", "tenant_id", "sha256"),
        Index("datasets_by_name", "tenant_id", "name", "version", unique=True),
    )

    name: Mapped[str] = mapped_column(String(200))
    version: Mapped[int] = mapped_column(server_default="0")
    sha256: Mapped[str] = mapped_column(DIGEST)
    graphs_digest: Mapped[str] = mapped_column(DIGEST)
    graph_count: Mapped[int]
    features: Mapped[int]
    edge_features: Mapped[int] = mapped_column(default=0, server_default="0")
    label_counts: Mapped[JsonObject]  # {"0": 120, …}; unlabelled graphs are not counted
    max_nodes: Mapped[int]
    mean_nodes: Mapped[float]
    mean_edges: Mapped[float]
    # One graph in compressed rows; requests refer to its nodes by number.
    large: Mapped[bool] = mapped_column(default=False)
    warnings: Mapped[JsonTexts | None]  # what was left out of the posted graphs


class Trained(Resource):
    """Networks that are trained once for one GNN and one reference set."""

    __abstract__ = True

    key: Mapped[str] = mapped_column(DIGEST)  # hash of everything that the training depends on
    gnn_id: Mapped[str] = mapped_column(ID, ForeignKey("gnns.id"))
    dataset_id: Mapped[str] = mapped_column(ID, ForeignKey("datasets.id"))
    state: Mapped[TrainingState] = mapped_column(default=TrainingState.TRAINING)
    weights_digest: Mapped[str | None] = mapped_column(DIGEST)
    metrics: Mapped[JsonObject | None]
    job_id: Mapped[str] = mapped_column(ID, ForeignKey("jobs.id"))
    used_at: Mapped[float | None]  # to the hour; None if never since it was created


class Denoiser(Trained):
    """The diffusion network of one GNN, reference set, objective and config."""

    __tablename__ = "denoisers"
    __table_args__ = (
        UniqueConstraint("tenant_id", "key", name="denoisers_key"),
        Index("denoisers_by_time", "tenant_id", "created_at", "id"),
        Index("denoisers_by_gnn", "gnn_id"),
        Index("denoisers_by_dataset", "dataset_id"),
        Index("denoisers_by_job", "job_id"),
    )

    objective: Mapped[str] = mapped_column(String(24))
    config: Mapped[JsonObject]
    weights_sha256: Mapped[str | None] = mapped_column(DIGEST)
    shape: Mapped[JsonObject | None]


class WitnessSet(Trained):
    """The witnesses of one GNN and reference set: small GNNs that share its flips or do not."""

    __tablename__ = "witness_sets"
    __table_args__ = (
        UniqueConstraint("tenant_id", "key", name="witness_sets_key"),
        Index("witness_sets_by_gnn", "gnn_id"),
        Index("witness_sets_by_dataset", "dataset_id"),
        Index("witness_sets_by_job", "job_id"),
    )

    description: Mapped[JsonObject | None]  # {"witnesses": […]}: what the weights belong to


class Explanation(Resource):
    """A request for an explanation and its answers: the final one, and a provisional one before it.

    `job_id` and `result_digest` belong to the final answer. An answer is written once.
    """

    __tablename__ = "explanations"
    __table_args__ = (
        Index("explanations_by_time", "tenant_id", "created_at", "id"),
        Index("explanations_by_job", "job_id"),
        Index("explanations_by_provisional_job", "provisional_job_id"),
    )

    kind: Mapped[str] = mapped_column(String(24))  # counterfactual | class
    # No foreign keys: an explanation outlives the resources that it used.
    gnn_id: Mapped[str] = mapped_column(ID)
    dataset_id: Mapped[str] = mapped_column(ID)
    denoiser_id: Mapped[str | None] = mapped_column(ID)  # None for the explainer `search`
    witness_set_id: Mapped[str | None] = mapped_column(ID)  # None if there are no witnesses
    job_id: Mapped[str] = mapped_column(ID, ForeignKey("jobs.id"))
    request_digest: Mapped[str] = mapped_column(DIGEST)
    result_digest: Mapped[str | None] = mapped_column(DIGEST)
    # No foreign key: SQLite cannot add one in place. None without a provisional answer.
    provisional_job_id: Mapped[str | None] = mapped_column(ID)
    provisional_digest: Mapped[str | None] = mapped_column(DIGEST)
    summary: Mapped[JsonObject | None]  # of the newest answer

    @property
    def result_stage(self) -> Stage | None:
        """Of the newest answer."""
        if self.result_digest is not None:
            return Stage.FINAL
        return None if self.provisional_digest is None else Stage.PROVISIONAL

    def state_after(self, ended: JobState) -> JobState:
        """Its state once its job has ended: with a provisional answer, it succeeds anyway."""
        has_answer = self.provisional_digest is not None
        may_stand_in = ended in (JobState.FAILED, JobState.EXPIRED)
        return JobState.SUCCEEDED if has_answer and may_stand_in else ended


class Replay(Resource):
    """A repetition of the work of one answer, and what it found."""

    __tablename__ = "replays"
    __table_args__ = (Index("replays_by_explanation", "explanation_id", "created_at", "id"),)

    explanation_id: Mapped[str] = mapped_column(
        ID, ForeignKey("explanations.id", ondelete="CASCADE")
    )
    stage: Mapped[Stage]
    answer_digest: Mapped[str] = mapped_column(DIGEST)
    # No foreign key: a replay outlives its job.
    job_id: Mapped[str] = mapped_column(ID)
    report: Mapped[JsonObject | None]


class ArtifactEntry(Table):
    """An artifact that rows of a tenant refer to, or did; see `artifact_ledger`."""

    __tablename__ = "artifacts"
    __table_args__ = (Index("artifacts_by_release", "released_at"),)

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    digest: Mapped[str] = mapped_column(DIGEST, primary_key=True)
    size: Mapped[int] = mapped_column(BigInteger)  # bytes; 0 after its deletion
    released_at: Mapped[float | None]  # when a row ceased to refer to it; others may still do
    deleting_since: Mapped[float | None]  # if set, the file may be gone


class TenantUsage(Table):
    """What a tenant uses; the lock of this row orders transactions that count against a quota."""

    __tablename__ = "tenant_usage"

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    stored_bytes: Mapped[int] = mapped_column(BigInteger)


class TenantPolicy(Table):
    """What an operator or admin has set for one tenant; other values are the deployment's."""

    __tablename__ = "tenant_policies"

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    quotas: Mapped[JsonObject]  # fields of `Quotas`
    retention: Mapped[JsonObject]  # days by kind


class Deletion(Table):
    """A deleted resource and the artifacts that it referred to."""

    __tablename__ = "deletions"
    __table_args__ = (Index("deletions_by_purge", "purged_at", "deleted_at"),)

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    resource_id: Mapped[str] = mapped_column(ID, primary_key=True)
    kind: Mapped[str] = mapped_column(String(24))
    digests: Mapped[JsonTexts]
    deleted_at: Mapped[float] = mapped_column(default=now())
    purged_at: Mapped[float | None]  # when it was verified that none of its files is left


class Hold(Table):
    """Protects a resource from deletion: because it is on hold itself, or another one needs it."""

    __tablename__ = "holds"

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    resource_id: Mapped[str] = mapped_column(ID, primary_key=True)
    held_id: Mapped[str] = mapped_column(ID, primary_key=True)  # the resource that is on hold
    reason: Mapped[str] = mapped_column(Text)
    key_id: Mapped[str | None] = mapped_column(ID)  # API key of the admin; None without keys
    created_at: Mapped[float] = mapped_column(default=now())


class IdempotencyKey(Table):
    """Maps a client's key to the resource that it created."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (Index("idempotency_keys_by_expiry", "expires_at"),)

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    body_sha256: Mapped[str] = mapped_column(DIGEST)
    route: Mapped[str] = mapped_column(String(255))
    resource: Mapped[str] = mapped_column(Text)
    created_at: Mapped[float] = mapped_column(default=now())
    expires_at: Mapped[float]


class Worker(Table):
    """A worker process and the time of its last heartbeat."""

    __tablename__ = "workers"

    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    tenant_id: Mapped[str] = mapped_column(String(64), default=DEFAULT_TENANT)
    queues: Mapped[str] = mapped_column(String(100))  # comma-separated
    device: Mapped[str] = mapped_column(String(50))
    pid: Mapped[int]
    job_format: Mapped[int] = mapped_column(server_default="1")  # the newest that it knows
    version: Mapped[str] = mapped_column(String(64), server_default="unknown")
    machine: Mapped[str] = mapped_column(String(64), server_default="unknown")  # see `machine_id`
    started_at: Mapped[float] = mapped_column(default=now())
    seen_at: Mapped[float] = mapped_column(default=now())


class Lead(Table):
    """The process that leads in a role, until its lease expires."""

    __tablename__ = "leads"

    name: Mapped[str] = mapped_column(String(50), primary_key=True)
    tenant_id: Mapped[str] = mapped_column(String(64), default=DEFAULT_TENANT)
    owner: Mapped[str] = mapped_column(String(200))
    lease_until: Mapped[float]
    broker_epoch: Mapped[str | None] = mapped_column(String(64))
