"""Bodies and resources of evaluations and comparisons, and how they are built from rows."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from d4explain.contracts.evaluations.requests import (
    DEFAULT_METRICS,
    METRICS,
    Metric,
    Noise,
)
from d4explain.contracts.evaluations.results import ComparisonResult, EvaluationResult
from d4explain.contracts.evaluations.rows import EvaluationRow
from d4explain.contracts.job_states import JobState
from d4explain.contracts.requests import PLAIN_EXPLAINERS, Aim, Explainer, Preset
from service.metadata_models import Metadata, StoredMetadata
from service.resource_builders import job_resource
from service.resources import JobResource, Resource
from service.schemas import (
    Body,
    DatasetReference,
    DenoiserChoice,
    GnnReference,
    RequestWebhookIn,
    ResourceId,
    Seed,
)
from store.catalogue.evaluations.evaluations import Standing
from store.database.clock import timestamp
from store.database.tables import Comparison, Evaluation, Job
from store.jobs import TrainingQueue

MAX_RETRAINED = 50


class HeldOutIn(Body):
    """A part of the reference set that no training of the service sees."""

    held_out: Annotated[float, Field(gt=0, le=0.5)] = Field(
        description="Share of the reference set's graphs; the rest becomes a reference set of its "
        "own, for which denoiser and witnesses are trained."
    )


class EvaluationConstraintsIn(Body):
    """Limits for the edits of every explainer."""

    max_edits: Annotated[int, Field(ge=1, le=64)] | None = None
    max_ratio: Annotated[float, Field(gt=0, le=1)] = 0.3
    actions: Literal["both", "add", "remove"] = "both"
    keep_connected: bool = False
    only_seen: bool = True


class EvaluationIn(Body):
    """Asks how explainers and a GNN do on a whole test set."""

    gnn: GnnReference
    dataset: DatasetReference
    test: DatasetReference | HeldOutIn = Field(
        description="The test set: a data set, or a held-out part of the reference set."
    )
    explainers: Annotated[
        list[Explainer], Field(min_length=1, max_length=3 + len(PLAIN_EXPLAINERS))
    ] = Field(["d4", "search"], description="At most one of `d4` and `d4-paper`.")
    metrics: Annotated[list[Metric], Field(max_length=len(METRICS))] = Field(
        list(DEFAULT_METRICS),
        description="Besides validity, curves, edits and work. `transfer` trains witnesses, "
        "`typicality` a denoiser. `robustness`, `stability` and `c2st` cost much more; "
        "`dry_run` says how much.",
    )
    count: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None, description="Instances, drawn by `seed`; the whole test set if not given."
    )
    aim: Aim = Field("minimal", description="Of `d4` and `search`, as in explanations.")
    alternatives: Annotated[int, Field(ge=1, le=16)] = 3
    judges: Literal["none"] | Annotated[list[GnnReference], Field(max_length=8)] | None = Field(
        None, description="GNNs that judge besides the witnesses, such as retrained ones."
    )
    constraints: EvaluationConstraintsIn = EvaluationConstraintsIn()
    preset: Preset = "balanced"
    stability_seeds: Annotated[int, Field(ge=1, le=10)] = Field(
        2, description="Further seeds per instance, for the metric `stability`."
    )
    seed: Seed = 0
    denoiser: DenoiserChoice | None = Field(
        None, description="A denoiser's id, or how to train one; the default recipe if not given."
    )
    webhook: RequestWebhookIn | None = Field(
        None, description="Sends one notification when this has ended (docs/webhooks.md)."
    )
    metadata: Metadata = Field(default_factory=dict)


class ComparisonIn(Body):
    """Asks what moved between two evaluations of the same test set."""

    baseline: ResourceId = Field(description="Id of an evaluation.")
    candidate: ResourceId = Field(
        description="Id of an evaluation; the same as `baseline` to compare two explainers of it."
    )
    explainer: Explainer | None = Field(
        None, description="Whose answers are compared; needed if there are several."
    )
    candidate_explainer: Explainer | None = Field(
        None, description="The candidate's, if another one."
    )
    retrained: Annotated[list[ResourceId], Field(max_length=MAX_RETRAINED)] = Field(
        [],
        description="Evaluations of other trainings of the baseline's GNN, at least two: their "
        "spread is the noise of retraining.",
    )
    noise: Noise | None = Field(
        None,
        description="`retraining` needs `retrained` and is the default for two GNNs. `instances` "
        "is the default for one GNN; for two it does not cover retraining.",
    )
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = Field(
        0.01, description="Largest corrected p value of a figure that moved."
    )
    seed: Seed = 0
    webhook: RequestWebhookIn | None = Field(
        None, description="Sends one notification when this has ended (docs/webhooks.md)."
    )
    metadata: Metadata = Field(default_factory=dict)


class EvaluationLinks(Resource):
    self: str
    job: str
    events: str
    rows: str
    csv: str
    parquet: str | None = Field(description="Null until the evaluation has succeeded.")


class EvaluationSummary(Resource):
    """An evaluation without its result, as in lists."""

    id: str
    gnn: str
    dataset: str = Field(
        description="Id of the reference set; of the rest, if a part of it is held out."
    )
    test_dataset: str = Field(description="Id of the data set that the instances come from.")
    denoiser: str | None = Field(description="Null if no explainer and no metric needs one.")
    explainers: list[str]
    instance_count: int
    explained_count: int = Field(description="Instances whose rows are stored.")
    state: JobState = Field(description="`running` from the start of the first shard on.")
    summary: dict[str, Any] | None = Field(description="The main figures by explainer.")
    metadata: StoredMetadata
    job: JobResource = Field(description="The job that computes the figures after all shards.")
    created_at: str
    links: EvaluationLinks


class EvaluationResource(EvaluationSummary):
    result: EvaluationResult | None = Field(description="Null until the evaluation succeeded.")


class ExplainerEstimate(Resource):
    explainer: str
    seconds: float = Field(description="Of all instances and metrics on one CPU core.")


class EvaluationEstimate(Resource):
    """Estimated cost of an evaluation, as an order of magnitude; nothing was queued."""

    dry_run: Literal[True] = True
    instances: int
    shards: int
    explainers: list[ExplainerEstimate]
    metric_seconds: dict[str, float] = Field(
        description="Part of the seconds that a metric adds, for those that cost much."
    )
    seconds: float = Field(description="Without any training, on one CPU core.")
    trains_denoiser: bool
    trains_witnesses: bool
    denoiser_seconds: float
    witness_seconds: float
    total_seconds: float = Field(description="With all training; several workers share the shards.")


class RowsPage(Resource):
    """Rows in the order of the instances."""

    items: list[EvaluationRow]
    next_cursor: str | None = Field(description="Value of `cursor` for the next page; null at end.")


class ComparisonLinks(Resource):
    self: str
    job: str
    baseline: str
    candidate: str


class ComparisonSummary(Resource):
    """A comparison without its result, as in lists."""

    id: str
    baseline: str
    candidate: str
    baseline_explainer: str | None = Field(
        description="Whose answers of the baseline were compared; null until it succeeded."
    )
    candidate_explainer: str | None = Field(
        description="Whose answers of the candidate were compared; null until it succeeded."
    )
    state: JobState
    moved: list[str] | None = Field(description="Figures that moved; null until it succeeded.")
    worse: list[str] | None = Field(description="Those of `moved` that became worse.")
    metadata: StoredMetadata
    job: JobResource
    created_at: str
    links: ComparisonLinks


class ComparisonResource(ComparisonSummary):
    result: ComparisonResult | None = Field(description="Null until the comparison succeeded.")


def evaluation_summary(
    evaluation: Evaluation,
    job: Job,
    standing: Standing,
    queue: TrainingQueue | None = None,
) -> EvaluationSummary:
    at = f"/v1/evaluations/{evaluation.id}"
    return EvaluationSummary(
        id=evaluation.id,
        gnn=evaluation.gnn_id,
        dataset=evaluation.dataset_id,
        test_dataset=evaluation.test_dataset_id,
        denoiser=evaluation.denoiser_id,
        explainers=evaluation.explainers,
        instance_count=evaluation.instance_count,
        explained_count=standing.explained_count,
        state=standing.state,
        summary=evaluation.summary,
        metadata=evaluation.caller_metadata or {},
        job=job_resource(job, queue or TrainingQueue()),
        created_at=timestamp(evaluation.created_at),
        links=EvaluationLinks(
            self=at,
            job=f"/v1/jobs/{job.id}",
            events=f"/v1/jobs/{job.id}/events",
            rows=f"{at}/rows",
            csv=f"{at}/rows?format=csv",
            parquet=f"{at}/rows?format=parquet" if evaluation.parquet_digest else None,
        ),
    )


def comparison_summary(comparison: Comparison, job: Job) -> ComparisonSummary:
    result = comparison.result or {}
    return ComparisonSummary(
        id=comparison.id,
        baseline=comparison.baseline_id,
        candidate=comparison.candidate_id,
        baseline_explainer=result.get("baseline_explainer"),
        candidate_explainer=result.get("candidate_explainer"),
        state=job.state,
        moved=result.get("moved"),
        worse=result.get("worse"),
        metadata=comparison.caller_metadata or {},
        job=job_resource(job),
        created_at=timestamp(comparison.created_at),
        links=ComparisonLinks(
            self=f"/v1/comparisons/{comparison.id}",
            job=f"/v1/jobs/{job.id}",
            baseline=f"/v1/evaluations/{comparison.baseline_id}",
            candidate=f"/v1/evaluations/{comparison.candidate_id}",
        ),
    )


def comparison_resource(comparison: Comparison, job: Job) -> ComparisonResource:
    found = comparison.result
    result = None if found is None else ComparisonResult.model_validate(found)
    return ComparisonResource(**dict(comparison_summary(comparison, job)), result=result)
