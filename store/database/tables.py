"""What the system remembers. Times are seconds since the epoch by the database's clock."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import (
    JSON,
    BigInteger,
    Double,
    Enum,
    ForeignKey,
    Index,
    Integer,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, class_mapper, mapped_column

from d4explain.contracts.job_states import (
    DenoiserState,
    EventType,
    GnnState,
    JobKind,
    JobState,
    Queue,
)
from store.database.clock import now

JsonObject = dict[str, Any]

_JSON = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
_ID = String(32)
_DIGEST = String(64)  # sha256, hex
# SQLite only numbers rows by itself when the key is plainly INTEGER.
_SERIAL = BigInteger().with_variant(Integer(), "sqlite")


def _words(words: type[StrEnum]) -> Enum:
    """Plain text in the database: a new word then needs no migration."""
    return Enum(
        words,
        native_enum=False,
        create_constraint=False,
        length=24,
        values_callable=lambda members: [member.value for member in members],
    )


class Table(DeclarativeBase):
    type_annotation_map = {  # noqa: RUF012 - read once by SQLAlchemy
        float: Double(),
        JsonObject: _JSON,
        JobState: _words(JobState),
        JobKind: _words(JobKind),
        Queue: _words(Queue),
        GnnState: _words(GnnState),
        DenoiserState: _words(DenoiserState),
        EventType: _words(EventType),
    }


Model = TypeVar("Model", bound=Table)


class Resource(Table):
    """Something a client can list and ask for by id."""

    __abstract__ = True

    id: Mapped[str] = mapped_column(_ID, primary_key=True)
    tenant_id: Mapped[str] = mapped_column(String(64), default="default")
    created_at: Mapped[float] = mapped_column(default=now())


def written(model: type[Model], values: Mapping[str, Any]) -> Model:
    """What an insert has written, as an object that no session knows; missing values are None.

    Its constructor would announce every value as a change, which takes ten times as long.
    """
    mapper = class_mapper(model)
    made: Model = mapper.class_manager.new_instance()
    vars(made).update(dict.fromkeys(mapper.columns.keys()), **values)
    return made


class Job(Resource):
    """One unit of asynchronous work; the queue's messages are only hints to look here."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index("jobs_by_time", "tenant_id", "created_at", "id"),
        Index("jobs_to_dispatch", "state", "next_dispatch_at"),
        Index("jobs_by_lease", "state", "lease_until"),
        Index("jobs_by_waiting_for", "waiting_for"),
        Index("jobs_by_gnn", "gnn_id"),
        Index("jobs_by_dataset", "dataset_id"),
        Index("jobs_by_retry_of", "retry_of", unique=True),  # a job is retried once
    )

    kind: Mapped[JobKind]
    queue: Mapped[Queue]
    state: Mapped[JobState] = mapped_column(default=JobState.QUEUED)
    attempt: Mapped[int] = mapped_column(default=0)  # counts every begin; the fencing token
    releases: Mapped[int] = mapped_column(default=0)  # attempts given up voluntarily
    max_attempts: Mapped[int]
    priority: Mapped[int]  # 0 is served first
    # Of a running job its worker; of a queued one the worker that has reserved it.
    lease_owner: Mapped[str | None] = mapped_column(String(200))
    lease_until: Mapped[float | None]
    cancel_requested: Mapped[bool] = mapped_column(default=False)
    waiting_for: Mapped[str | None] = mapped_column(_ID, ForeignKey("jobs.id"))
    subject_id: Mapped[str | None] = mapped_column(_ID)
    # No foreign keys: a finished job outlives what it worked on.
    gnn_id: Mapped[str | None] = mapped_column(_ID)
    dataset_id: Mapped[str | None] = mapped_column(_ID)
    denoiser_id: Mapped[str | None] = mapped_column(_ID)
    request_digest: Mapped[str | None] = mapped_column(_DIGEST)
    result: Mapped[JsonObject | None]
    error: Mapped[JsonObject | None]  # {type, message, attempts: [{attempt, type, message, at}]}
    progress: Mapped[JsonObject | None]  # {phase, step, total, metrics}
    checkpoint: Mapped[JsonObject | None]  # {digest, step}
    retry_of: Mapped[str | None] = mapped_column(_ID, ForeignKey("jobs.id"))
    seed: Mapped[int] = mapped_column(BigInteger, default=0)
    started_at: Mapped[float | None]
    finished_at: Mapped[float | None]
    expires_at: Mapped[float | None]
    next_dispatch_at: Mapped[float] = mapped_column(default=now())
    dispatches: Mapped[int] = mapped_column(default=0)

    @property
    def attempts_used(self) -> int:
        return self.attempt - self.releases


class JobTotal(Table):
    """How many jobs of a kind have ended in a state since the beginning."""

    __tablename__ = "job_totals"

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True, default="default")
    kind: Mapped[JobKind] = mapped_column(primary_key=True)
    state: Mapped[JobState] = mapped_column(primary_key=True)
    count: Mapped[int] = mapped_column(BigInteger)


class JobEvent(Table):
    """What happened to a job, in order; only ever appended to."""

    __tablename__ = "job_events"
    __table_args__ = (Index("job_events_by_job", "job_id", "id"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(_SERIAL, primary_key=True, autoincrement=True)
    tenant_id: Mapped[str] = mapped_column(String(64), default="default")
    job_id: Mapped[str] = mapped_column(_ID, ForeignKey("jobs.id", ondelete="CASCADE"))
    type: Mapped[EventType]
    data: Mapped[JsonObject]
    at: Mapped[float] = mapped_column(default=now())


class Gnn(Resource):
    """A trained classifier that is to be explained."""

    __tablename__ = "gnns"
    __table_args__ = (
        Index("gnns_by_time", "tenant_id", "created_at", "id"),
        Index("gnns_by_content", "tenant_id", "sha256"),
        Index("gnns_by_name", "tenant_id", "name", "version", unique=True),
    )

    name: Mapped[str] = mapped_column(String(200))
    version: Mapped[int]  # among those of this name; given out by GnnName
    description: Mapped[str | None] = mapped_column(Text)
    tags: Mapped[JsonObject] = mapped_column(default=dict)  # {"stage": "beta", …}
    sha256: Mapped[str] = mapped_column(_DIGEST)  # of spec and weights
    spec: Mapped[JsonObject]
    weights_digest: Mapped[str] = mapped_column(_DIGEST)
    state: Mapped[GnnState] = mapped_column(default=GnnState.PROBING)
    report: Mapped[JsonObject | None]
    job_id: Mapped[str] = mapped_column(_ID, ForeignKey("jobs.id"))


class GnnName(Table):
    """Counts the versions of a name; it stays when they are deleted, so none comes twice."""

    __tablename__ = "gnn_names"

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True, default="default")
    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    last_version: Mapped[int]


class GnnAlias(Table):
    """A word such as `production` for one version of a name."""

    __tablename__ = "gnn_aliases"
    __table_args__ = (Index("gnn_aliases_by_gnn", "gnn_id"),)

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True, default="default")
    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    alias: Mapped[str] = mapped_column(String(64), primary_key=True)
    gnn_id: Mapped[str] = mapped_column(_ID, ForeignKey("gnns.id"))


class Dataset(Resource):
    """Graphs of the distribution a GNN was trained on."""

    __tablename__ = "datasets"
    __table_args__ = (
        Index("datasets_by_time", "tenant_id", "created_at", "id"),
        Index("datasets_by_content", "tenant_id", "sha256"),
    )

    name: Mapped[str] = mapped_column(String(200))
    sha256: Mapped[str] = mapped_column(_DIGEST)
    graphs_digest: Mapped[str] = mapped_column(_DIGEST)
    graph_count: Mapped[int]
    features: Mapped[int]
    edge_features: Mapped[int] = mapped_column(default=0, server_default="0")
    label_counts: Mapped[JsonObject]  # {"0": 120, …}; unlabelled graphs are not counted
    max_nodes: Mapped[int]
    mean_nodes: Mapped[float]
    mean_edges: Mapped[float]
    # One graph in compressed rows, whose nodes are asked about by their numbers.
    large: Mapped[bool] = mapped_column(default=False)


class Denoiser(Resource):
    """The diffusion network of one GNN, reference set, objective and config."""

    __tablename__ = "denoisers"
    __table_args__ = (
        UniqueConstraint("tenant_id", "key", name="denoisers_key"),
        Index("denoisers_by_time", "tenant_id", "created_at", "id"),
        Index("denoisers_by_gnn", "gnn_id"),
        Index("denoisers_by_dataset", "dataset_id"),
        Index("denoisers_by_job", "job_id"),
    )

    key: Mapped[str] = mapped_column(_DIGEST)
    gnn_id: Mapped[str] = mapped_column(_ID, ForeignKey("gnns.id"))
    dataset_id: Mapped[str] = mapped_column(_ID, ForeignKey("datasets.id"))
    objective: Mapped[str] = mapped_column(String(24))
    config: Mapped[JsonObject]
    state: Mapped[DenoiserState] = mapped_column(default=DenoiserState.TRAINING)
    weights_digest: Mapped[str | None] = mapped_column(_DIGEST)
    weights_sha256: Mapped[str | None] = mapped_column(_DIGEST)
    shape: Mapped[JsonObject | None]
    metrics: Mapped[JsonObject | None]
    job_id: Mapped[str] = mapped_column(_ID, ForeignKey("jobs.id"))


class Explanation(Resource):
    """A question about a GNN and, once its job succeeded, the answer."""

    __tablename__ = "explanations"
    __table_args__ = (
        Index("explanations_by_time", "tenant_id", "created_at", "id"),
        Index("explanations_by_job", "job_id"),
    )

    kind: Mapped[str] = mapped_column(String(24))  # counterfactual | class
    # No foreign keys: an explanation is a record and outlives what it was made with.
    gnn_id: Mapped[str] = mapped_column(_ID)
    dataset_id: Mapped[str] = mapped_column(_ID)
    denoiser_id: Mapped[str] = mapped_column(_ID)
    job_id: Mapped[str] = mapped_column(_ID, ForeignKey("jobs.id"))
    request_digest: Mapped[str] = mapped_column(_DIGEST)
    result_digest: Mapped[str | None] = mapped_column(_DIGEST)
    summary: Mapped[JsonObject | None]


class IdempotencyKey(Table):
    """Which resource a client's key stands for."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (Index("idempotency_keys_by_expiry", "expires_at"),)

    tenant_id: Mapped[str] = mapped_column(String(64), primary_key=True, default="default")
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    body_sha256: Mapped[str] = mapped_column(_DIGEST)
    route: Mapped[str] = mapped_column(String(255))
    resource: Mapped[str] = mapped_column(Text)
    created_at: Mapped[float] = mapped_column(default=now())
    expires_at: Mapped[float]


class Worker(Table):
    """A worker process that said it is alive."""

    __tablename__ = "workers"

    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    tenant_id: Mapped[str] = mapped_column(String(64), default="default")
    queues: Mapped[str] = mapped_column(String(100))  # comma-separated
    device: Mapped[str] = mapped_column(String(50))
    pid: Mapped[int]
    started_at: Mapped[float] = mapped_column(default=now())
    seen_at: Mapped[float] = mapped_column(default=now())


class Lead(Table):
    """Which of several processes leads in a matter, for as long as its lease runs."""

    __tablename__ = "leads"

    name: Mapped[str] = mapped_column(String(50), primary_key=True)
    tenant_id: Mapped[str] = mapped_column(String(64), default="default")
    owner: Mapped[str] = mapped_column(String(200))
    lease_until: Mapped[float]
    broker_epoch: Mapped[str | None] = mapped_column(String(64))
