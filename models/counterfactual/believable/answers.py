"""Believable counterfactuals: the search, and their verification by the sparse GNN."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.counterfactual.believable.ensemble import Ensemble
from models.counterfactual.believable.search import (
    BelievableConfig,
    BelievableSearch,
    BelievableSet,
    Likelihood,
)
from models.counterfactual.oracle import CounterfactualOracle
from models.counterfactual.panel import Panel
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.typicality import least_likely_node
from models.graphs.edits import EditSet, EditSpace
from models.realism.reference_patterns import InputPatterns

_PAIRS_PER_PASS = 40_000  # node pairs of one denoiser pass
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
    denoiser: EdgeDenoiser | None = None,
    probabilities: Tensor,  # [class], of the unedited graph
    alternatives: int,
    device: torch.device,
) -> BelievableSets:
    """Searches towards the likely classes and keeps the sets that convince most witnesses."""
    goal = oracle.goal
    targets = [goal.target] if goal.target is not None else _likely(probabilities, goal.before)
    likelihood = None if denoiser is None else _likelihood(denoiser, space, device)
    found: list[BelievableSet] = []
    stopped = False
    for target in targets:
        ensemble = Ensemble(oracle, space, panel.selection, target, device)
        seen = patterns if panel.only_seen else None
        search = BelievableSearch(space, ensemble, seen, config, likelihood)
        found += search.run(alternatives)
        stopped |= search.stopped
    margins = oracle.verified_margins([answer.edits for answer in found])
    verified = [answer for answer, margin in zip(found, margins, strict=True) if margin > 0]
    most = max((answer.convinced for answer in verified), default=0)
    best = [answer for answer in verified if answer.convinced == most]
    best.sort(key=lambda answer: (len(answer.edits), -answer.objective, answer.edits))
    return BelievableSets(best, stopped)


def _likelihood(denoiser: EdgeDenoiser, space: EditSpace, device: torch.device) -> Likelihood:
    def likelihood(edit_sets: Sequence[EditSet]) -> Tensor:
        per_pass = max(1, _PAIRS_PER_PASS // max(space.graph.node_count, 1) ** 2)
        parts = [
            least_likely_node(denoiser, space.dense(edit_sets[start : start + per_pass]).to(device))
            for start in range(0, len(edit_sets), per_pass)
        ]
        return torch.cat(parts).cpu()

    return likelihood


def _likely(probabilities: Tensor, before: int) -> list[int]:
    """The most probable classes but the one before."""
    order: list[int] = probabilities.argsort(descending=True, stable=True).tolist()
    return [label for label in order if label != before][:_TARGETS]
