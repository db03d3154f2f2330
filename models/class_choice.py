"""Which of the graphs that chains went through are the answer.

Sure graphs that together look like the class: greedily, the set S with the least

    MMD²(S, class parts) + mean over S of (doubt + wishes that are not met),

as in kernel herding (Chen, Welling and Smola 2010), here without repetition. Doubt is
log .995 - log f, 0 for surer graphs; wishes are the regularisers' terms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.graphs import DenseGraphs, Graph, from_dense
from models.isomorphism import graph_codes
from models.mmd import GraphStatistics, kernels_between, statistics

SURE = math.log(0.995)  # log f that is not worth raising at the cost of anything else
# Nats below the best score of its size at which a graph is no answer: less than a second component
# or an edge beyond a valence costs.
_WORSE = 1.9
_MOST = 2_000  # graphs among which answers are chosen, those of the best scores
_TO_ITSELF = 3.0  # a graph's kernels with itself, added up
# In units of MMD² per nat.
_DOUBT = 100.0
_WISH = 0.1
_ABOVE_BEST = 0.1  # that the objective may be for the sake of more answers


@dataclass(frozen=True)
class Pool:
    """Graphs to choose answers from, no two isomorphic."""

    graphs: DenseGraphs
    log_confidence: Tensor  # [graph] log f
    log_likelihood: Tensor  # [graph]
    scores: Tensor  # [graph] regularised

    def select(self, index: Tensor) -> Pool:
        return Pool(
            self.graphs.select(index),
            self.log_confidence[index],
            self.log_likelihood[index],
            self.scores[index],
        )

    def mean_best(self, size: int, count: int) -> float:
        """The mean of the best scores that graphs of a size have; -inf without any."""
        own = self.scores[self.graphs.mask.sum(dim=1) == size]
        return float(own.topk(min(count, len(own))).values.mean()) if len(own) else -math.inf


def distinct(graphs: DenseGraphs) -> DenseGraphs:
    """The first of each kind, in order; features count."""
    first: dict[int, int] = {}
    for position, code in enumerate(graph_codes(graphs)):
        first.setdefault(code, position)
    return graphs.select(torch.tensor(list(first.values()), dtype=torch.long))


def chosen(pool: Pool, parts: Sequence[Graph], count: int) -> Pool:
    """At most `count` of the pool; `parts` are what graphs of the class look like."""
    pool = pool.select(_eligible(pool))
    met = pool.scores - pool.log_confidence.clamp(max=SURE)
    doubt = (SURE - pool.log_confidence).clamp(min=0)
    costs = _DOUBT * doubt + _WISH * (met.max() - met)
    order, values = _herded(statistics(from_dense(pool.graphs)), statistics(parts), costs, count)
    most = min(values) + _ABOVE_BEST
    last = max(place for place, value in enumerate(values) if value <= most)
    return pool.select(torch.tensor(order[: last + 1]))


def _eligible(pool: Pool) -> Tensor:
    """Positions of those not far below the best of their size, best first."""
    nodes = pool.graphs.mask.sum(dim=1)
    best = torch.full((int(nodes.max()) + 1,), -math.inf).scatter_reduce(
        0, nodes, pool.scores, "amax"
    )
    order = pool.scores.argsort(descending=True, stable=True)
    return order[(pool.scores >= best[nodes] - _WORSE)[order]][:_MOST]


def _herded(
    own: GraphStatistics, wanted: GraphStatistics, costs: Tensor, count: int
) -> tuple[list[int], list[float]]:
    """Positions in the order in which they are added, and the objective after each."""
    alike = kernels_between(own, wanted).sum.mean(dim=1)  # [graph]
    constant = float(wanted.kernels.sum.mean())
    to_set = torch.zeros_like(alike)  # each one's kernels with the set, summed
    left = torch.zeros_like(alike)  # infinite once added
    within = linear = 0.0
    order: list[int] = []
    values: list[float] = []
    for size in range(1, min(count, own.count) + 1):
        added = (within + 2 * to_set + _TO_ITSELF) / size**2
        objective = added + (linear + costs - 2 * alike) / size + constant + left
        best = int(objective.argmin())
        order.append(best)
        values.append(float(objective[best]))
        within += float(2 * to_set[best] + _TO_ITSELF)
        linear += float(costs[best] - 2 * alike[best])
        to_set += kernels_between(own, own.select(torch.tensor([best]))).sum[:, 0]
        left[best] = math.inf
    return order, values
