"""Response models, one per resource; `resource_builders` builds them from database rows."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.global_counterfactuals.results import GlobalResult
from d4explain.contracts.gnn_spec import GnnSpecDocument
from d4explain.contracts.job_states import (
    ExplanationKind,
    GnnState,
    JobKind,
    JobState,
    Queue,
    Stage,
    TrainingState,
)
from d4explain.contracts.probe_reports import ProbeReport
from d4explain.contracts.receipts.replay_reports import ReplayReport
from d4explain.contracts.requests import DenoiserConfig
from d4explain.contracts.results import ClassResult, NodePredictions, Prediction
from service.metadata_models import MetadataValue, StoredMetadata

Item = TypeVar("Item", bound=BaseModel)


class Resource(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PageOf(Resource, Generic[Item]):
    """A page, newest first; `next_cursor` and the Link header lead to the next page."""

    items: list[Item]
    next_cursor: str | None


class FailedAttempt(Resource):
    attempt: int
    type: str
    message: str
    at: str


class JobError(Resource):
    type: str
    message: str
    attempts: list[FailedAttempt]


class Subject(Resource):
    """Ids of the resources that a job works on."""

    gnn: str | None
    dataset: str | None
    denoiser: str | None
    witness_set: str | None
    explanation: str | None
    evaluation: str | None = Field(description="Of the figures or of a shard.")
    comparison: str | None


class JobLinks(Resource):
    """Links; `cancel` and `retry` are null if not possible."""

    self: str
    events: str
    cancel: str | None
    retry: str | None
    result: str


class AwaitedTraining(Resource):
    """A training that a job waits for."""

    job: str
    kind: JobKind
    state: JobState
    progress: dict[str, Any] | None
    seconds_left: float | None = Field(
        description="Its own work, at most; it often stops early. Null if unknown."
    )


class JobResource(Resource):
    id: str
    kind: JobKind
    queue: Queue
    state: JobState
    attempt: int
    max_attempts: int
    progress: dict[str, Any] | None = Field(
        description="`phase`, `step`, `total` and `metrics`, as reported by the worker. For a job "
        "that waits, those of the training that runs."
    )
    waiting_for: str | None = Field(
        description="Id of the job that has to end first; the next one if there are several."
    )
    trainings: list[AwaitedTraining] = Field(description="The trainings that the job waits for.")
    seconds_left: float | None = Field(
        description="Estimated time until the job has ended, with the trainings that it waits for "
        "and those before them. Null if unknown or ended."
    )
    cancel_requested: bool
    error: JobError | None
    result: dict[str, Any] | None = Field(
        description="Predictions, and the outcome of a replay; other jobs have `links.result`."
    )
    retry_of: str | None
    subject: Subject
    metadata: dict[str, MetadataValue] = Field(
        description="That of the explanation, denoiser or GNN; of a prediction, its own."
    )
    created_at: str
    started_at: str | None
    finished_at: str | None
    links: JobLinks


class GnnLinks(Resource):
    self: str
    job: str
    predictions: str


class GnnResource(Resource):
    id: str
    name: str
    version: int = Field(description="Counted per name; `name@version` also identifies the GNN.")
    aliases: list[str]
    description: str | None
    tags: dict[str, str]
    metadata: StoredMetadata
    state: GnnState
    sha256: str
    spec: GnnSpecDocument
    report: ProbeReport | None
    created_at: str
    job_id: str = Field(description="The probe job.")
    links: GnnLinks


class DatasetResource(Resource):
    id: str
    name: str
    version: int = Field(
        description="Counted per name; `name@version` also identifies the reference set."
    )
    sha256: str
    graph_count: int
    features: int
    edge_features: int = 0
    label_counts: dict[str, int]
    max_nodes: int
    mean_nodes: float
    mean_edges: float
    large: bool = Field(False, description="One large graph, whose node ids are 0 to n - 1.")
    warnings: list[str] = Field(description="What was left out of the posted graphs; often empty.")
    metadata: StoredMetadata
    created_at: str


class DenoiserResource(Resource):
    id: str
    gnn: str
    dataset: str
    objective: Literal["counterfactual", "class"]
    config: DenoiserConfig
    state: TrainingState
    key: str
    weights_sha256: str | None
    metrics: dict[str, Any] | None
    metadata: StoredMetadata
    job: JobResource
    created_at: str


class ExplanationLinks(Resource):
    self: str
    job: str
    events: str
    svg: str | None


class AnswerResource(Resource):
    """One answer of an explanation, which never changes once it exists."""

    stage: Stage
    state: JobState = Field(description="Of its job.")
    job: str
    sha256: str | None = Field(description="Of the document at `url`; null until it exists.")
    url: str
    svg: str | None


class ExplanationSummary(Resource):
    """An explanation without its result, as in lists."""

    id: str
    kind: ExplanationKind
    gnn: str
    dataset: str
    denoiser: str | None = Field(
        description="Null for explainers that need none, such as `search`."
    )
    state: JobState = Field(
        description="`running` until the final answer. `succeeded` also if there is a provisional "
        "answer and the final one failed; `reason` says why."
    )
    answers: list[AnswerResource] = Field(
        description="The final answer; before it a provisional one if something has to be trained."
    )
    result_stage: Stage | None = Field(description="Which answer `result` and `summary` show.")
    reason: str | None = Field(
        description="Why the provisional answer is the last one; null in all other cases."
    )
    summary: dict[str, Any] | None
    metadata: StoredMetadata
    job: JobResource = Field(description="The job of the final answer.")
    created_at: str
    links: ExplanationLinks


class ExplanationResource(ExplanationSummary):
    result: CounterfactualResult | ClassResult | GlobalResult | None = Field(
        discriminator="kind", description="The newest answer."
    )


class HoldResource(Resource):
    """A hold: nobody can delete the resource or what it needs."""

    resource: str = Field(description="Id of the resource that is on hold.")
    reason: str
    protects: list[str] = Field(
        description="Ids of the other resources that it protects, since this one needs them."
    )
    key_id: str | None = Field(description="The API key of the admin; null without keys.")
    created_at: str


class HoldList(Resource):
    """All holds of a tenant, newest first."""

    items: list[HoldResource]


class QuotaResource(Resource):
    """One limit of a tenant."""

    limit: float | None = Field(description="Null if there is no limit.")
    used: float = Field(description="What the tenant uses now.")


class QuotasResource(Resource):
    """What a tenant may use, and what it uses."""

    jobs: QuotaResource = Field(description="Queued and running jobs.")
    work_seconds: QuotaResource = Field(
        description="Estimated work in queued and running jobs, in seconds on one core."
    )
    stored_bytes: QuotaResource = Field(description="Bytes of stored artifacts.")
    requests_per_second: float | None = Field(
        description="Of one API process; null if there is no limit."
    )


class RetentionResource(Resource):
    """Days after which data of a tenant is deleted; null if it is kept."""

    explanations: float | None = Field(description="Days since the request.")
    jobs: float | None = Field(
        description="Days since the end of a prediction, or of a job that a retry has replaced."
    )
    networks: float | None = Field(description="Days since a denoiser or witnesses were last used.")
    datasets: float | None = Field(
        description="Days since a reference set was stored that nothing refers to."
    )


class PredictionsResource(Resource):
    gnn: str
    job: JobResource
    predictions: list[Prediction] | list[NodePredictions] | None = Field(
        description="One per graph, once the job is done. If the GNN classifies nodes, `nodes` has "
        "one per node."
    )
    warnings: list[str] = Field(description="What was left out of the posted graphs; often empty.")


class ReplayLinks(Resource):
    self: str
    explanation: str


class ReplayResource(Resource):
    """The work of one answer, repeated and compared."""

    id: str
    explanation: str
    stage: Stage
    answer_sha256: str
    job: JobResource
    report: ReplayReport | None
    created_at: str
    links: ReplayLinks


class SigningKeyResource(Resource):
    id: str
    algorithm: Literal["Ed25519"]
    public_key: str
    current: bool
    first_seen_at: str


class SigningKeys(Resource):
    """The public keys of a deployment, newest first."""

    keys: list[SigningKeyResource]
