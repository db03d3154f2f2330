"""Builds the resources of responses from database rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from d4explain.contracts.gnn_spec import stored_spec
from d4explain.contracts.job_states import JobKind, JobState
from d4explain.contracts.probe_reports import ProbeReport
from d4explain.contracts.requests import DenoiserConfig
from d4explain.contracts.results import PredictionResult
from service.resources import (
    DatasetResource,
    DenoiserResource,
    ExplanationLinks,
    ExplanationResource,
    ExplanationSummary,
    FailedAttempt,
    GnnLinks,
    GnnResource,
    JobError,
    JobLinks,
    JobResource,
    PredictionsResource,
    Subject,
)
from store.database.tables import Dataset, Denoiser, Explanation, Gnn, Job


def timestamp(seconds: float) -> str:
    """RFC 3339 with milliseconds, in UTC."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _optional_timestamp(seconds: float | None) -> str | None:
    return None if seconds is None else timestamp(seconds)


def job_resource(job: Job) -> JobResource:
    at = f"/v1/jobs/{job.id}"
    can_retry = job.state.is_terminal and job.state is not JobState.SUCCEEDED
    return JobResource(
        id=job.id,
        kind=job.kind,
        queue=job.queue,
        state=job.state,
        attempt=job.attempts_used,
        max_attempts=job.max_attempts,
        progress=job.progress,
        waiting_for=job.awaited,
        cancel_requested=job.cancel_requested,
        error=_job_error(job),
        result=job.result,
        retry_of=job.retry_of,
        subject=Subject(
            gnn=job.gnn_id,
            dataset=job.dataset_id,
            denoiser=job.denoiser_id,
            witness_set=job.witness_set_id,
            explanation=job.subject_id if _is_explanation(job) else None,
        ),
        created_at=timestamp(job.created_at),
        started_at=_optional_timestamp(job.started_at),
        finished_at=_optional_timestamp(job.finished_at),
        links=JobLinks(
            self=at,
            events=f"{at}/events",
            cancel=None if job.state.is_terminal else f"{at}/cancel",
            retry=f"{at}/retry" if can_retry else None,
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
        version=dataset.version,
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
