"""Builds the resources of responses from database rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from d4explain.contracts.gnn_spec import stored_spec
from d4explain.contracts.job_states import ExplanationKind, JobKind, JobState, Stage
from d4explain.contracts.probe_reports import ProbeReport
from d4explain.contracts.requests import DenoiserConfig
from d4explain.contracts.results import PredictionResult
from service.resources import (
    AnswerResource,
    AwaitedTraining,
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
from store.catalogue import explanations
from store.database.clock import timestamp
from store.database.tables import Dataset, Denoiser, Explanation, Gnn, Job
from store.database.tables.base import JsonObject
from store.jobs import TrainingQueue
from store.jobs.time_left import work_left

_EXPLANATION_KINDS: dict[str, ExplanationKind] = {kind: kind for kind in get_args(ExplanationKind)}
_NO_TRAINING = TrainingQueue()
_EVALUATIONS = (JobKind.EVALUATION, JobKind.EVALUATION_SHARD)


def _optional_timestamp(seconds: float | None) -> str | None:
    return None if seconds is None else timestamp(seconds)


def job_resource(job: Job, queue: TrainingQueue = _NO_TRAINING) -> JobResource:
    trainings = queue.awaited_by(job)
    at = f"/v1/jobs/{job.id}"
    can_retry = job.state.is_terminal and job.state is not JobState.SUCCEEDED
    return JobResource(
        id=job.id,
        kind=job.kind,
        queue=job.queue,
        state=job.state,
        attempt=job.attempts_used,
        max_attempts=job.max_attempts,
        progress=_progress(job, trainings),
        waiting_for=job.awaited,
        trainings=[
            AwaitedTraining(
                job=training.id,
                kind=training.kind,
                state=training.state,
                progress=training.progress,
                seconds_left=_rounded(work_left(training)),
            )
            for training in trainings
        ],
        seconds_left=None if job.state.is_terminal else _rounded(queue.seconds_left(job)),
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
            evaluation=job.subject_id if job.kind in _EVALUATIONS else None,
            comparison=job.subject_id if job.kind is JobKind.COMPARISON else None,
        ),
        metadata=job.caller_metadata or {},
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


def _progress(job: Job, trainings: Sequence[Job]) -> JsonObject | None:
    """The job's own progress, or that of the running training that it waits for."""
    running = (one.progress for one in trainings if one.state is JobState.RUNNING)
    return job.progress or next(running, None)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def gnn_resource(gnn: Gnn, aliases: Sequence[str]) -> GnnResource:
    return GnnResource(
        id=gnn.id,
        name=gnn.name,
        version=gnn.version,
        aliases=list(aliases),
        description=gnn.description,
        tags=gnn.tags,
        metadata=gnn.caller_metadata or {},
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
        warnings=dataset.warnings or [],
        metadata=dataset.caller_metadata or {},
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
        metadata=denoiser.caller_metadata or {},
        job=job_resource(job),
        created_at=timestamp(denoiser.created_at),
    )


def explanation_summary(
    explanation: Explanation,
    job: Job,
    provisional: Job | None = None,
    queue: TrainingQueue = _NO_TRAINING,
) -> ExplanationSummary:
    """`job` is that of the final answer; without `provisional` that one has not started."""
    at = f"/v1/explanations/{explanation.id}"
    state = explanations.state_of(explanation, job, provisional)
    return ExplanationSummary(
        id=explanation.id,
        kind=_EXPLANATION_KINDS[explanation.kind],
        gnn=explanation.gnn_id,
        dataset=explanation.dataset_id,
        denoiser=explanation.denoiser_id,
        state=state,
        answers=list(_answers(explanation, job, provisional)),
        result_stage=explanation.result_stage,
        reason=_reason(job) if state is JobState.SUCCEEDED else None,
        summary=explanation.summary,
        metadata=explanation.caller_metadata or {},
        job=job_resource(job, queue),
        created_at=timestamp(explanation.created_at),
        links=ExplanationLinks(
            self=at,
            job=f"/v1/jobs/{job.id}",
            events=f"/v1/jobs/{job.id}/events",
            svg=f"{at}?format=svg" if explanation.result_stage else None,
        ),
    )


def _answers(
    explanation: Explanation, job: Job, provisional: Job | None
) -> Iterator[AnswerResource]:
    if explanation.provisional_job_id is not None:
        state = JobState.QUEUED if provisional is None else provisional.state
        digest = explanation.provisional_digest
        yield _answer(explanation, Stage.PROVISIONAL, explanation.provisional_job_id, state, digest)
    yield _answer(explanation, Stage.FINAL, job.id, job.state, explanation.result_digest)


def _answer(
    explanation: Explanation, stage: Stage, job_id: str, state: JobState, digest: str | None
) -> AnswerResource:
    url = f"/v1/explanations/{explanation.id}/answers/{stage}"
    return AnswerResource(
        stage=stage,
        state=state,
        job=job_id,
        sha256=digest,
        url=url,
        svg=f"{url}?format=svg" if digest else None,
    )


def _reason(job: Job) -> str | None:
    """Why a succeeded explanation has no final answer."""
    if job.state is JobState.SUCCEEDED:
        return None
    detail = f": {job.error['message']}" if job.error else ""
    return f"there is no final answer, because its job {job.id} is {job.state}{detail}"


def new_explanation(
    explanation: Explanation, job: Job, queue: TrainingQueue
) -> ExplanationResource:
    """The resource of an explanation that has no result yet."""
    summary = explanation_summary(explanation, job, queue=queue)
    return ExplanationResource(**dict(summary), result=None)


def predictions_resource(job: Job) -> PredictionsResource:
    result = None
    if job.result is not None and "predictions" in job.result:
        result = PredictionResult.model_validate(job.result)
    return PredictionsResource(
        gnn=job.gnn_id or "",
        job=job_resource(job),
        predictions=None if result is None else result.predictions,
        warnings=[] if result is None else result.warnings,
    )


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
    return job.kind in (
        JobKind.PROVISIONAL,
        JobKind.COUNTERFACTUAL,
        JobKind.CLASS,
        JobKind.GLOBAL,
    )


def _result_link(job: Job) -> str:
    explanation = f"/v1/explanations/{job.subject_id}"
    links = {
        JobKind.PROVISIONAL: f"{explanation}/answers/{Stage.PROVISIONAL}",
        JobKind.COUNTERFACTUAL: explanation,
        JobKind.CLASS: explanation,
        JobKind.GLOBAL: explanation,
        JobKind.PROBE: f"/v1/gnns/{job.gnn_id}",
        JobKind.TRAIN: f"/v1/denoisers/{job.denoiser_id}",
        JobKind.REPLAY: f"/v1/replays/{job.subject_id}",
        JobKind.EVALUATION: f"/v1/evaluations/{job.subject_id}",
        JobKind.EVALUATION_SHARD: f"/v1/evaluations/{job.subject_id}",
        JobKind.COMPARISON: f"/v1/comparisons/{job.subject_id}",
    }
    return links.get(job.kind, f"/v1/jobs/{job.id}")
