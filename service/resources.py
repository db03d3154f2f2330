"""Response models, one per resource, built from rows of the store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from d4explain.contracts.gnn_spec import GnnSpecDocument, stored_spec
from d4explain.contracts.job_states import DenoiserState, GnnState, JobKind, JobState, Queue
from d4explain.contracts.probe_reports import ProbeReport
from d4explain.contracts.requests import DenoiserConfig
from d4explain.contracts.results import (
    ClassResult,
    CounterfactualResult,
    NodePredictions,
    Prediction,
    PredictionResult,
)
from store.database.tables import Dataset, Denoiser, Explanation, Gnn, Job

Item = TypeVar("Item", bound=BaseModel)


class Resource(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PageOf(Resource, Generic[Item]):
    """Newest first; `next_cursor` (and the Link header) lead to the next page."""

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
    explanation: str | None


class JobLinks(Resource):
    """Links; `cancel` and `retry` are null if not possible."""

    self: str
    events: str
    cancel: str | None
    retry: str | None
    result: str


class JobResource(Resource):
    id: str
    kind: JobKind
    queue: Queue
    state: JobState
    attempt: int
    max_attempts: int
    progress: dict[str, Any] | None = Field(
        description="`phase`, `step`, `total` and `metrics`, as reported by the worker."
    )
    waiting_for: str | None = Field(description="Id of the training job that has to succeed first.")
    cancel_requested: bool
    error: JobError | None
    result: dict[str, Any] | None = Field(
        description="Only for predictions; other jobs have `links.result`."
    )
    retry_of: str | None
    subject: Subject
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
    sha256: str
    graph_count: int
    features: int
    edge_features: int = 0
    label_counts: dict[str, int]
    max_nodes: int
    mean_nodes: float
    mean_edges: float
    large: bool = Field(False, description="One large graph, whose node ids are 0 to n - 1.")
    created_at: str


class DenoiserResource(Resource):
    id: str
    gnn: str
    dataset: str
    objective: Literal["counterfactual", "class"]
    config: DenoiserConfig
    state: DenoiserState
    key: str
    weights_sha256: str | None
    metrics: dict[str, Any] | None
    job: JobResource
    created_at: str


class ExplanationLinks(Resource):
    self: str
    job: str
    events: str
    svg: str | None


class ExplanationSummary(Resource):
    """An explanation without its result, as in lists."""

    id: str
    kind: Literal["counterfactual", "class"]
    gnn: str
    dataset: str
    denoiser: str | None = Field(description="Null for the explainer `search`, which needs none.")
    state: JobState
    summary: dict[str, Any] | None
    job: JobResource
    created_at: str
    links: ExplanationLinks


class ExplanationResource(ExplanationSummary):
    result: CounterfactualResult | ClassResult | None = Field(discriminator="kind")


class PredictionsResource(Resource):
    gnn: str
    job: JobResource
    predictions: list[Prediction] | list[NodePredictions] | None = Field(
        description="One per graph, once the job is done. If the GNN classifies nodes, `nodes` has "
        "one per node."
    )


def timestamp(seconds: float) -> str:
    """RFC 3339 with milliseconds, in UTC."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _timestamp(seconds: float | None) -> str | None:
    return None if seconds is None else timestamp(seconds)


def job_resource(job: Job) -> JobResource:
    at = f"/v1/jobs/{job.id}"
    again = job.state.is_terminal and job.state is not JobState.SUCCEEDED
    return JobResource(
        id=job.id,
        kind=job.kind,
        queue=job.queue,
        state=job.state,
        attempt=job.attempts_used,
        max_attempts=job.max_attempts,
        progress=job.progress,
        waiting_for=job.waiting_for,
        cancel_requested=job.cancel_requested,
        error=_job_error(job),
        result=job.result,
        retry_of=job.retry_of,
        subject=Subject(
            gnn=job.gnn_id,
            dataset=job.dataset_id,
            denoiser=job.denoiser_id,
            explanation=job.subject_id if _is_explanation(job) else None,
        ),
        created_at=timestamp(job.created_at),
        started_at=_timestamp(job.started_at),
        finished_at=_timestamp(job.finished_at),
        links=JobLinks(
            self=at,
            events=f"{at}/events",
            cancel=None if job.state.is_terminal else f"{at}/cancel",
            retry=f"{at}/retry" if again else None,
            result=_result_link(job),
        ),
    )


def gnn_resource(gnn: Gnn, aliases: Sequence[str]) -> GnnResource:
    return GnnResource(
        id=gnn.id,
        name=gnn.name,
        version=gnn.version,
        aliases=list(aliases),
        description=gnn.description,
        tags=gnn.tags,
        state=gnn.state,
        sha256=gnn.sha256,
        spec=stored_spec(gnn.spec),
        report=None if gnn.report is None else ProbeReport.model_validate(gnn.report),
        created_at=timestamp(gnn.created_at),
        job_id=gnn.job_id,
        links=GnnLinks(
            self=f"/v1/gnns/{gnn.id}",
            job=f"/v1/jobs/{gnn.job_id}",
            predictions=f"/v1/gnns/{gnn.id}/predictions",
        ),
    )


def dataset_resource(dataset: Dataset) -> DatasetResource:
    return DatasetResource(
        id=dataset.id,
        name=dataset.name,
        sha256=dataset.sha256,
        graph_count=dataset.graph_count,
        features=dataset.features,
        edge_features=dataset.edge_features,
        label_counts=dataset.label_counts,
        max_nodes=dataset.max_nodes,
        mean_nodes=dataset.mean_nodes,
        mean_edges=dataset.mean_edges,
        large=dataset.large,
        created_at=timestamp(dataset.created_at),
    )


def denoiser_resource(denoiser: Denoiser, job: Job) -> DenoiserResource:
    return DenoiserResource(
        id=denoiser.id,
        gnn=denoiser.gnn_id,
        dataset=denoiser.dataset_id,
        objective="class" if denoiser.objective == "class" else "counterfactual",
        config=DenoiserConfig.model_validate(denoiser.config),
        state=denoiser.state,
        key=denoiser.key,
        weights_sha256=denoiser.weights_sha256,
        metrics=denoiser.metrics,
        job=job_resource(job),
        created_at=timestamp(denoiser.created_at),
    )


def explanation_summary(explanation: Explanation, job: Job) -> ExplanationSummary:
    at = f"/v1/explanations/{explanation.id}"
    return ExplanationSummary(
        id=explanation.id,
        kind="class" if explanation.kind == "class" else "counterfactual",
        gnn=explanation.gnn_id,
        dataset=explanation.dataset_id,
        denoiser=explanation.denoiser_id,
        state=job.state,
        summary=explanation.summary,
        job=job_resource(job),
        created_at=timestamp(explanation.created_at),
        links=ExplanationLinks(
            self=at,
            job=f"/v1/jobs/{job.id}",
            events=f"/v1/jobs/{job.id}/events",
            svg=f"{at}?format=svg" if explanation.result_digest else None,
        ),
    )


def new_explanation(explanation: Explanation, job: Job) -> ExplanationResource:
    """The resource of an explanation that has no result yet."""
    return ExplanationResource(**dict(explanation_summary(explanation, job)), result=None)


def predictions_resource(job: Job) -> PredictionsResource:
    predictions = None
    if job.result is not None and "predictions" in job.result:
        predictions = PredictionResult.model_validate(job.result).predictions
    return PredictionsResource(gnn=job.gnn_id or "", job=job_resource(job), predictions=predictions)


def _job_error(job: Job) -> JobError | None:
    if job.error is None:
        return None
    return JobError(
        type=job.error["type"],
        message=job.error["message"],
        attempts=[
            FailedAttempt(**{**attempt, "at": timestamp(attempt["at"])})
            for attempt in job.error.get("attempts", [])
        ],
    )


def _is_explanation(job: Job) -> bool:
    return job.kind in (JobKind.COUNTERFACTUAL, JobKind.CLASS)


def _result_link(job: Job) -> str:
    if _is_explanation(job):
        return f"/v1/explanations/{job.subject_id}"
    if job.kind is JobKind.PROBE:
        return f"/v1/gnns/{job.gnn_id}"
    if job.kind is JobKind.TRAIN:
        return f"/v1/denoisers/{job.denoiser_id}"
    return f"/v1/jobs/{job.id}"
