"""Counterfactuals of an explainer of the literature: its verified curve, without our search."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from models.counterfactual.oracle import CounterfactualOracle
from models.counterfactual.selection import CountUnseen, Selection, choose
from models.explainers.curve import CounterfactualCurve, counterfactual_curve
from models.explainers.factual import FactualExplanation, factual_explanation
from models.explainers.interface import EdgeScores, Explainer


@dataclass(frozen=True)
class Explained:
    selection: Selection
    factual: FactualExplanation | None  # of explainers that score edges


def explain_with(
    explainer: Explainer,
    oracle: CounterfactualOracle,
    *,
    alternatives: int,
    count_unseen: CountUnseen,
    generator: torch.Generator,
    device: torch.device,
) -> Explained:
    """The smallest flips on the explainer's curve, unpruned; raises StoppedError if stopped.

    The factual explanation has as many edges as the counterfactual may remove.
    """
    explanation = explainer.explain(oracle, generator)
    curve = counterfactual_curve(oracle, explanation, generator)
    factual = None
    if isinstance(explanation, EdgeScores):
        space = oracle.space
        factual = factual_explanation(
            oracle.gnn, space.graph, explanation, edges=space.budget, device=device
        )
        oracle.evaluations += 3
        flip = curve.smallest_flip
        chosen = [] if flip is None else [flip.edits]  # longer flips contain the smallest
    else:
        flips = [step.edits for step in curve.steps if step.flips]
        chosen = choose(oracle.space, _minimal(flips), alternatives, count_unseen)
    return Explained(Selection(chosen, None if chosen else _nearest(oracle, curve)), factual)


def _minimal(flips: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The flips that contain no smaller one; flips come by ascending size."""
    kept: list[tuple[int, ...]] = []
    for edits in flips:
        if not any(set(smaller) <= set(edits) for smaller in kept):
            kept.append(edits)
    return kept


def _nearest(oracle: CounterfactualOracle, curve: CounterfactualCurve) -> tuple[int, ...] | None:
    if not curve.steps:
        return None
    margins = oracle.goal.margin(torch.stack([step.probabilities for step in curve.steps]))
    return curve.steps[int(margins.argmax())].edits
