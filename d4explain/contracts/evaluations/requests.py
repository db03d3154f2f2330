"""Requests of the jobs of evaluations and comparisons: the service stores them, workers read."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from d4explain.contracts.requests import Aim, Constraints, Explainer, Preset, RequestDocument

# Those before the last three cost little; the last three multiply the work.
Metric = Literal["transfer", "typicality", "mmd", "robustness", "stability", "c2st"]
METRICS: tuple[Metric, ...] = (
    "transfer",
    "typicality",
    "mmd",
    "robustness",
    "stability",
    "c2st",
)
DEFAULT_METRICS: tuple[Metric, ...] = ("transfer", "typicality", "mmd")
WITH_DENOISER: frozenset[Explainer] = frozenset({"d4", "d4-paper"})
Noise = Literal["retraining", "instances"]


class EvaluatedSet(RequestDocument):
    """Where the instances come from."""

    dataset: str  # id of the data set that was posted
    sha256: str  # of that set
    part: Literal["whole", "held_out"]  # held out: nothing of this service was trained on it
    graph_count: int  # of the part
    held_out_share: float | None = None


class EvaluationRequest(RequestDocument):
    kind: Literal["evaluation"] = "evaluation"
    test: EvaluatedSet
    graphs_sha256: str  # the artifact with the instances, in their order
    positions: list[int]  # of the instances in the part
    explainers: list[Explainer]
    metrics: list[Metric]
    aim: Aim = "minimal"
    alternatives: Annotated[int, Field(ge=1, le=16)] = 3
    judges: list[str] | Literal["none"] = Field(default_factory=list)
    no_witnesses: str | None = None  # why none were trained; None if they were
    constraints: Constraints = Constraints()
    preset: Preset = "balanced"
    stability_seeds: Annotated[int, Field(ge=1, le=10)] = 2  # further seeds per instance
    seed: int = 0


class ComparisonRequest(RequestDocument):
    kind: Literal["comparison"] = "comparison"
    baseline: str  # id of an evaluation
    candidate: str
    baseline_explainer: Explainer
    candidate_explainer: Explainer
    # Evaluations of other trainings of the baseline's GNN.
    retrained: list[str] = Field(default_factory=list)
    noise: Noise
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.01
    seed: int = 0
