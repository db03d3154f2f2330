"""Evaluations and comparisons as the API returns them; unknown fields are ignored."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from d4explain.client.resources import Job, Resource
from d4explain.contracts.evaluations.results import ComparisonResult, EvaluationResult
from d4explain.contracts.job_states import JobState


class Evaluation(Resource):
    id: str
    gnn: str
    dataset: str  # the reference set
    test_dataset: str
    denoiser: str | None = None
    explainers: list[str]
    instance_count: int
    explained_count: int
    state: JobState
    summary: dict[str, Any] | None = None
    metadata: dict[str, str | int | float | bool] = Field(default_factory=dict)
    job: Job
    result: EvaluationResult | None = None  # None until it succeeded, and in lists
    created_at: str


class ExplainerEstimate(Resource):
    explainer: str
    seconds: float


class EvaluationEstimate(Resource):
    """The estimated cost of an evaluation, as an order of magnitude."""

    instances: int
    shards: int
    explainers: list[ExplainerEstimate]
    metric_seconds: dict[str, float] = Field(default_factory=dict)
    seconds: float
    trains_denoiser: bool
    trains_witnesses: bool
    total_seconds: float


class Comparison(Resource):
    id: str
    baseline: str
    candidate: str
    state: JobState
    moved: list[str] | None = None  # figures; None until it succeeded
    worse: list[str] | None = None
    result: ComparisonResult | None = None  # None until it succeeded, and in lists
    metadata: dict[str, str | int | float | bool] = Field(default_factory=dict)
    job: Job
    created_at: str
