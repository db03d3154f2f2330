"""Figures of class explanations: one row of the class table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.classes.methods import ClassMethod
from bench.classes.runs import ClassAnswer, ClassResult
from bench.data.motifs import shows_class
from bench.report.paper_figures import (
    CLASS_CONFIDENCE,
    CLASS_DENSITY,
    XGNN_CONFIDENCE,
    XGNN_DENSITY,
)


@dataclass(frozen=True)
class ClassRow:
    """The figures of a saved row; provenance is added separately.

    Support, contrast, effect and confidence are means over seeds of the first answer.
    """

    dataset: str
    label: int
    nodes: int | None  # None: the explainer chooses
    method: str
    k: int | None
    t: int | None
    seeds: int
    n: float  # answers per seed
    confidence_alone: float | None  # mean over all answers, as in the paper
    paper_confidence: float | None
    density: float | None
    paper_density: float | None
    class_support: float | None
    other_support: float | None
    contrast: float | None
    effect: float | None
    confidence: float | None
    motif: float | None  # share of the seeds whose answers show the class; None if unknown
    from_denoiser: float | None  # share of the first answers that a chain visited
    seconds: float  # CPU, per class and seed


def class_row(
    dataset: str, label: int, nodes: int | None, method: ClassMethod, results: Sequence[ClassResult]
) -> ClassRow:
    """`results` has one result per seed."""
    answers = [answer for result in results for answer in result.answers]
    first = [result.answers[0] for result in results if result.answers]
    shown = [
        shows_class(dataset, label, [answer.graph for answer in result.answers])
        for result in results
    ]
    size = -1 if nodes is None else nodes
    is_xgnn = method.name == "xgnn"
    return ClassRow(
        dataset=dataset,
        label=label,
        nodes=nodes,
        method=method.name,
        k=method.candidates,
        t=method.steps,
        seeds=len(results),
        n=len(answers) / len(results),
        confidence_alone=_mean([answer.alone for answer in answers]),
        paper_confidence=(XGNN_CONFIDENCE if is_xgnn else CLASS_CONFIDENCE)
        .get(dataset, {})
        .get(size),
        density=_mean([answer.density for answer in answers]),
        paper_density=(XGNN_DENSITY if is_xgnn else CLASS_DENSITY).get(dataset, {}).get(size),
        class_support=_mean([answer.class_support for answer in first]),
        other_support=_mean([answer.other_support for answer in first]),
        contrast=_mean([_contrast(answer) for answer in first]),
        effect=_mean([answer.effect for answer in first]),
        confidence=_mean([one.confidence for one in first if one.confidence is not None]),
        motif=_mean([float(one) for one in shown if one is not None]),
        from_denoiser=_mean([float(answer.from_denoiser) for answer in first]),
        seconds=math.fsum(result.cpu_seconds for result in results) / len(results),
    )


def _contrast(answer: ClassAnswer) -> float:
    return answer.class_support - answer.other_support


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
