"""Typed resources of the API; ignores unknown fields, which a newer server may send."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.global_counterfactuals.results import GlobalResult
from d4explain.contracts.job_states import GnnState, JobKind, JobState, Stage, TrainingState
from d4explain.contracts.probe_reports import ProbeReport
from d4explain.contracts.receipts.replay_reports import ReplayReport
from d4explain.contracts.results import ClassResult, NodePredictions, Prediction
from d4explain.contracts.webhooks import DeliveryState


class Resource(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Progress(Resource):
    phase: str = ""
    step: int = 0
    total: int | None = None
    metrics: dict[str, Any] = Field(default_factory=dict)


class JobError(Resource):
    type: str = ""
    message: str = ""


class Job(Resource):
    id: str
    kind: JobKind
    state: JobState
    attempt: int = 0
    progress: Progress | None = None
    waiting_for: str | None = None
    seconds_left: float | None = None  # estimated; None if unknown
    cancel_requested: bool = False
    error: JobError | None = None
    result: dict[str, Any] | None = None  # of predictions and replays
    retry_of: str | None = None
    subject: dict[str, Any] = Field(default_factory=dict)
    metadata: dict[str, str | int | float | bool] = Field(default_factory=dict)
    created_at: str
    started_at: str | None = None
    finished_at: str | None = None

    @property
    def is_done(self) -> bool:
        return self.state.is_terminal


class Gnn(Resource):
    id: str
    name: str
    version: int = 1
    aliases: list[str] = Field(default_factory=list)
    description: str | None = None
    tags: dict[str, str] = Field(default_factory=dict)
    metadata: dict[str, str | int | float | bool] = Field(default_factory=dict)
    state: GnnState
    sha256: str
    spec: dict[str, Any]
    report: ProbeReport | None = None
    job_id: str
    created_at: str


class Dataset(Resource):
    id: str
    name: str
    version: int = 1
    sha256: str
    graph_count: int
    features: int
    edge_features: int = 0
    label_counts: dict[str, int] = Field(default_factory=dict)  # by number of the class
    max_nodes: int
    mean_nodes: float
    mean_edges: float
    large: bool = False  # one large graph
    warnings: list[str] = Field(default_factory=list)  # what was left out of the posted graphs
    metadata: dict[str, str | int | float | bool] = Field(default_factory=dict)
    created_at: str


class Hold(Resource):
    """A resource that nobody can delete, with the resources that it needs."""

    resource: str
    reason: str
    protects: list[str] = Field(default_factory=list)
    key_id: str | None = None
    created_at: str


class Quota(Resource):
    limit: float | None = None  # None: no limit
    used: float


class Quotas(Resource):
    """What the tenant may use, and what it uses."""

    jobs: Quota
    work_seconds: Quota
    stored_bytes: Quota
    requests_per_second: float | None = None


class Retention(Resource):
    """Days after which data is deleted; None if it is kept."""

    explanations: float | None = None
    jobs: float | None = None
    networks: float | None = None
    datasets: float | None = None


class CaseEstimate(Resource):
    mode: str  # exact, restricted or neighbourhood
    node_count: int
    pair_count: int
    memory_bytes: int
    seconds: float


class Estimate(Resource):
    """The estimated cost of an explanation, as an order of magnitude."""

    cases: list[CaseEstimate]
    memory_bytes: int
    seconds: float
    trains_denoiser: bool
    trains_witnesses: bool = False
    total_seconds: float | None = None  # with all training
    provisional: bool = False  # whether a provisional answer comes first


class Denoiser(Resource):
    id: str
    gnn: str
    dataset: str
    objective: str
    state: TrainingState
    metrics: dict[str, Any] | None = None
    metadata: dict[str, str | int | float | bool] = Field(default_factory=dict)
    job: Job
    created_at: str


class Webhook(Resource):
    id: str
    url: str
    events: list[str] | None = None  # None: all
    description: str | None = None
    enabled: bool
    failures: int = 0  # attempts since the last success
    metadata: dict[str, str | int | float | bool] = Field(default_factory=dict)
    previous_secret_until: str | None = None
    created_at: str


class NewWebhook(Webhook):
    """The API shows the secret only once."""

    secret: str = Field(repr=False)


class ApiKey(Resource):
    id: str
    name: str
    prefix: str  # how the key begins
    scopes: list[str]
    state: str
    metadata: dict[str, str | int | float | bool] = Field(default_factory=dict)
    created_at: str
    expires_at: str | None = None
    revoked_at: str | None = None
    last_used_at: str | None = None
    rotated_from: str | None = None


class NewApiKey(ApiKey):
    """The API shows the key only once."""

    key: str = Field(repr=False)


class Link(Resource):
    id: str
    explanation: str
    created_at: str
    expires_at: str


class NewLink(Link):
    """The API shows the URL only once; its token opens the explanation."""

    url: str = Field(repr=False)


class DeliveryAttempt(Resource):
    at: str
    status: int | None = None
    failure: str | None = None  # None if it was delivered
    seconds: float


class WebhookDelivery(Resource):
    """A notification and the attempts to deliver it."""

    id: str
    webhook: str
    event: str
    job: str
    state: DeliveryState
    attempts: int
    history: list[DeliveryAttempt] = Field(default_factory=list)
    next_attempt_at: str | None = None
    body: dict[str, Any]
    created_at: str
    ended_at: str | None = None


class HealthCheck(Resource):
    ok: bool
    detail: str


class LiveWorker(Resource):
    name: str
    queues: list[str]
    device: str


class Health(Resource):
    status: str
    checks: dict[str, HealthCheck]
    workers: list[LiveWorker]


class Predictions(Resource):
    job: Job
    predictions: list[Prediction] | list[NodePredictions] | None = None
    warnings: list[str] = Field(default_factory=list)  # what was left out of the posted graphs


class Answer(Resource):
    """One of up to two answers of an explanation."""

    stage: Stage
    state: JobState
    job: str
    sha256: str | None = None  # None until the answer exists
    url: str


class Explanation(Resource):
    id: str
    kind: str
    gnn: str
    dataset: str
    denoiser: str | None  # None for the explainer `search`
    state: JobState
    answers: list[Answer] = Field(default_factory=list)
    reason: str | None = None  # why a provisional answer is the last one
    job: Job  # of the final answer
    result: CounterfactualResult | ClassResult | GlobalResult | None = Field(
        None, discriminator="kind"
    )
    created_at: str
    metadata: dict[str, str | int | float | bool] = Field(default_factory=dict)

    def answer(self, stage: Stage) -> Answer | None:
        return next((answer for answer in self.answers if answer.stage is stage), None)


class Replay(Resource):
    """The repeated work of one answer; `report` is None until its job has succeeded."""

    id: str
    explanation: str
    stage: Stage
    answer_sha256: str
    job: Job
    report: ReplayReport | None = None
    created_at: str


class SigningKey(Resource):
    """A public key that verifies receipts."""

    id: str
    public_key: str  # PEM
    current: bool
    first_seen_at: str
