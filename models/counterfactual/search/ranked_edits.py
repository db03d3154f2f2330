"""Flips of many edits: the edits with the largest predicted gains together, then pruned."""

from __future__ import annotations

import torch
from torch import Tensor

from models.counterfactual.edit_ranking import EditRanker
from models.counterfactual.oracle import FORBIDDEN, CounterfactualOracle
from models.counterfactual.pruning import prune
from models.graphs.base_edit_space import EditSet


def best_edit_sets(ranker: EditRanker, present: Tensor, count: int) -> list[EditSet]:
    """The `count` edits with the largest positive gains: of all edits, removals, additions."""
    gains = ranker.gains
    edit_sets = []
    for kind in (torch.ones_like(present), present, ~present):
        ranked = gains.masked_fill(~kind, FORBIDDEN).argsort(descending=True, stable=True)
        best = ranked[:count]
        edit_sets.append(tuple(best[gains[best] > 0].tolist()))
    return [edits for edits in edit_sets if edits]


def ranked_flips(
    oracle: CounterfactualOracle,
    ranker: EditRanker,
    effects: Tensor,
    *,
    wanted: int,
    minimal: bool = True,
) -> list[EditSet]:
    """Small flips among the best-ranked edits; if `minimal`, without unnecessary edits.

    The edits of a set are ordered by their effects [pair]. Prefixes of growing length are evaluated
    until `wanted` flips are known, then each flip is pruned.
    """
    budget, order = oracle.space.budget, effects.tolist()
    ranked = [
        sorted(edits, key=lambda pair: (-order[pair], pair))
        for edits in best_edit_sets(ranker, oracle.space.present, budget)
    ]
    flips: dict[EditSet, None] = {}
    for length in _lengths(budget):
        prefixes = list(
            dict.fromkeys(tuple(sorted(edits[:length])) for edits in ranked if len(edits) >= length)
        )
        margins = oracle.margins(prefixes)
        flips.update(
            (edits, None) for edits, margin in zip(prefixes, margins, strict=True) if margin > 0
        )
        if len(flips) >= wanted:
            break
    pruned = list(flips)
    if minimal:
        try:
            prune(pruned, oracle.trial_margins)
        finally:  # if stopped, the partly pruned sets are also flips
            oracle.margins(pruned)
    return list(dict.fromkeys(pruned))


def _lengths(budget: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, … and the budget; pruning finds the lengths in between."""
    powers = [2**power for power in range(budget.bit_length())]
    return sorted(
        {
            length
            for power in powers
            for length in (power, power * 3 // 2, budget)
            if 1 <= length <= budget
        }
    )
