"""Believable counterfactuals: the search, and their verification by the sparse GNN."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from models.counterfactual.believable.ensemble import Ensemble
from models.counterfactual.believable.search import (
    BelievableConfig,
    BelievableSearch,
    BelievableSet,
)
from models.counterfactual.oracle import CounterfactualOracle
from models.counterfactual.panel import Panel
from models.graphs.edits import EditSpace
from models.realism.reference_patterns import InputPatterns

_TARGETS = 2  # classes tried, the most probable ones first


@dataclass(frozen=True)
class BelievableSets:
    """Sets that flip the sparse GNN and convince equally many witnesses, smallest first."""

    sets: list[BelievableSet]
    stopped: bool  # whether a stop request ended the search


def believable_sets(
    oracle: CounterfactualOracle,
    space: EditSpace,
    panel: Panel,
    patterns: InputPatterns | None,
    config: BelievableConfig,
    *,
    probabilities: Tensor,  # [class], of the unedited graph
    alternatives: int,
    device: torch.device,
) -> BelievableSets:
    """Searches towards the likely classes and keeps the sets that convince most witnesses."""
    goal = oracle.goal
    targets = [goal.target] if goal.target is not None else _likely(probabilities, goal.before)
    found: list[BelievableSet] = []
    stopped = False
    for target in targets:
        ensemble = Ensemble(oracle, space, panel.selection, target, device)
        seen = patterns if panel.only_seen else None
        search = BelievableSearch(space, ensemble, seen, config)
        found += search.run(alternatives)
        stopped |= search.stopped
    margins = oracle.verified_margins([answer.edits for answer in found])
    verified = [answer for answer, margin in zip(found, margins, strict=True) if margin > 0]
    most = max((answer.convinced for answer in verified), default=0)
    best = [answer for answer in verified if answer.convinced == most]
    best.sort(key=lambda answer: (len(answer.edits), -answer.objective, answer.edits))
    return BelievableSets(best, stopped)


def _likely(probabilities: Tensor, before: int) -> list[int]:
    """The most probable classes but the one before."""
    order: list[int] = probabilities.argsort(descending=True, stable=True).tolist()
    return [label for label in order if label != before][:_TARGETS]
