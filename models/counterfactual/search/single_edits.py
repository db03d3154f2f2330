"""Depth 1 of the search: which pairs to try as single edits, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeVar

import torch
from torch import Tensor

from models.counterfactual.edit_ranking import EditRanker
from models.counterfactual.oracle import CounterfactualOracle
from models.counterfactual.search.search_config import SearchConfig
from models.graphs.base_edit_space import BaseEditSpace, EditSet

_NATURAL = 64  # predicted flips that are ranked by statistics shift
MAX_PAIRS = 2000  # if there are more pairs, only the most promising ones are tried
_MAX_CELLS = 2**26  # limit on the entries of all their adjacencies together

T = TypeVar("T")


@dataclass(frozen=True)
class SingleEdits:
    """Effects of the single edits, after depth 1."""

    tried: list[int]  # positions of the pairs whose single edit the GNN has evaluated
    effects: Tensor  # [pair] margin gained by the single edit; predicted where not tried


def first_pairs(
    oracle: CounterfactualOracle, ranker: EditRanker, config: SearchConfig
) -> list[int]:
    """The pairs to try as single edits, in the order to try them.

    If the ranker predicts effects and there are many pairs, this is a pool of the best ones;
    otherwise all pairs. If there are too many pairs, up to half are existing edges, and the rest
    alternates between slope and plausibility. Without predicted effects the order is random.
    """
    count = oracle.space.count
    affordable = pairs_tried(oracle.space.graph.node_count)
    pool = pool_size(ranker, config, count)
    if pool is not None:
        return _pool(oracle, ranker, config, pool)
    pairs = list(range(count))
    if count > affordable:
        slopes = ranker.gains if oracle.gnn.has_dense else ranker.plausibility
        pairs = _most_promising(oracle.space, slopes, ranker.plausibility, affordable)
    if not ranker.predicts_effects:
        return ranker.shuffled(pairs)
    gains = ranker.gains.tolist()
    return sorted(pairs, key=lambda pair: (-gains[pair], pair))


def pairs_tried(nodes: int) -> int:
    """How many single edits of a graph of this size the GNN can evaluate."""
    return max(1, min(MAX_PAIRS, _MAX_CELLS // max(nodes, 1) ** 2))


def pool_size(ranker: EditRanker, config: SearchConfig, count: int) -> int | None:
    """How many of `count` pairs are tried; None means all."""
    if not ranker.predicts_effects or config.pool is None:
        return None
    size = config.pool
    if config.calibrated:
        if ranker.calibrated_pool is None:
            return None
        size = max(size, ranker.calibrated_pool)
    # A pool of half of the pairs or more saves too little to risk missing a flip.
    return size if 2 * size < count else None


def natural_flips(space: BaseEditSpace, predicted: Mapping[EditSet, float]) -> list[EditSet]:
    """The sets with the largest positive predicted margins, smallest statistics shift first."""
    flips = [edits for edits, margin in predicted.items() if margin > 0]
    most_likely = sorted(flips, key=lambda edits: (-predicted[edits], edits))[:_NATURAL]
    shift = dict(zip(most_likely, space.statistics_shift(most_likely), strict=True))
    return sorted(most_likely, key=lambda edits: (shift[edits], edits))


def interleaved(*orders: Sequence[T]) -> list[T]:
    """The orders, interleaved item by item, without repetitions."""
    rounds = zip_longest(*([(item,) for item in order] for order in orders), fillvalue=())
    return list(dict.fromkeys(item for cells in rounds for cell in cells for item in cell))


def _best_pairs(values: Tensor, count: int) -> list[int]:
    """Positions of the largest values, largest first."""
    order: list[int] = values.argsort(descending=True, stable=True)[:count].tolist()
    return order


def _pool(
    oracle: CounterfactualOracle, ranker: EditRanker, config: SearchConfig, size: int
) -> list[int]:
    """Pairs by gain and by statistics shift, interleaved.

    A calibrated pool also contains the `calibrated_pool` pairs with the largest gains.
    """
    gains = ranker.gains
    by_gain = _best_pairs(gains, size)
    predicted: dict[EditSet, float] = {
        (pair,): ranker.unedited_margin + float(gains[pair])
        for pair in _best_pairs(gains, 2 * size)
    }
    natural = [edits[0] for edits in natural_flips(oracle.space, predicted)]
    chosen = interleaved(by_gain, natural)[:size]
    needed = by_gain[: ranker.calibrated_pool] if config.calibrated else []
    return list(dict.fromkeys([*chosen, *needed]))


def _most_promising(
    space: BaseEditSpace, gradient: Tensor, plausibility: Tensor, count: int
) -> list[int]:
    by_gradient = gradient.argsort(descending=True, stable=True)
    by_plausibility = plausibility.argsort(descending=True, stable=True)
    removals = by_gradient[space.present[by_gradient]].tolist()
    chosen = dict.fromkeys(removals[: count // 2])
    for pair in torch.stack([by_gradient, by_plausibility], dim=1).flatten().tolist():
        if len(chosen) >= count:
            break
        chosen[pair] = None
    return sorted(chosen)
