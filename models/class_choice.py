"""Which of the graphs that chains went through are the answer.

Sure graphs that together look like the class: greedily, the set S with the least

    MMD²(S, class parts) + doubt + mean over S of (own doubt + wishes that are not met),

as in kernel herding (Chen, Welling and Smola 2010), here without repetition. Own doubt is
log .995 - log f, 0 for surer graphs, and costs little; doubt is the same of the mean of log f over
S and costs much: a typical graph may be a little less sure where others are surer. Wishes are the
regularisers' terms. Answers are added as long as S stays far closer to the class than random graphs
are, or near the closest that it came.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.graphs import DenseGraphs, Graph, from_dense
from models.isomorphism import graph_codes
from models.mmd import GraphStatistics, kernels_between, mmd, statistics

SURE = math.log(0.995)  # log f that is not worth raising at the cost of anything else
# Nats of faults beyond the fewest at which a graph is no answer: less than a second component or an
# edge beyond a valence costs.
_WORSE = 1.9
_LESS_SURE = 0.1  # nats of log f that an answer may be below the surest one
_MOST = 6_000  # graphs among which answers are chosen
_TO_ITSELF = 3.0  # a graph's kernels with itself, added up
# In units of MMD² per nat.
_DOUBT = 1_000.0
_OWN_DOUBT = 3.0
_WISH = 0.05
# What MMD² and doubt may be for the sake of more answers: a share of the MMD² of random graphs, or
# so much above the least.
_OF_RANDOM = 1 / 14
_ABOVE_BEST = 0.05


@dataclass(frozen=True)
class Pool:
    """Graphs to choose answers from, no two isomorphic."""

    graphs: DenseGraphs
    log_confidence: Tensor  # [graph] log f
    log_likelihood: Tensor  # [graph]
    scores: Tensor  # [graph] regularised
    faults: Tensor  # [graph] nats that it costs to be other than asked, as a second component does

    def select(self, index: Tensor) -> Pool:
        return Pool(
            self.graphs.select(index),
            self.log_confidence[index],
            self.log_likelihood[index],
            self.scores[index],
            self.faults[index],
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


@dataclass(frozen=True)
class _Herd:
    order: list[int]  # positions as they were added
    distances: list[float]  # MMD² and doubt after each


def chosen(pool: Pool, parts: Sequence[Graph], random: Sequence[Graph], count: int) -> Pool:
    """At most `count` of the pool; `parts` are what the class looks like, `random` what nothing is.

    How many depends on how the distance to `parts` grows compared with that of `random`.
    """
    pool = pool.select(_eligible(pool))
    met = pool.scores - pool.log_confidence.clamp(max=SURE)
    own_doubt = (SURE - pool.log_confidence).clamp(min=0)
    wanted = statistics(parts)
    herd = _herded(
        statistics(from_dense(pool.graphs)),
        wanted,
        pool.log_confidence.double(),
        _OWN_DOUBT * own_doubt + _WISH * (met.max() - met),
        count,
    )
    most = max(min(herd.distances) + _ABOVE_BEST, _OF_RANDOM * mmd(statistics(random), wanted).sum)
    last = max(place for place, distance in enumerate(herd.distances) if distance <= most)
    return pool.select(torch.tensor(herd.order[: last + 1]))


def _eligible(pool: Pool) -> Tensor:
    """Positions of the sure ones among those with few faults, however they score.

    Scores rank what is likeliest first, so that a cut by score leaves many graphs of one kind and
    more of them the longer chains run. Where there are too many they are thinned out evenly.
    """
    few = pool.faults <= pool.faults.min() + _WORSE
    surest = pool.log_confidence[few].max()
    found = (few & (pool.log_confidence >= surest - _LESS_SURE)).nonzero().flatten()
    return found[torch.linspace(0, len(found) - 1, min(_MOST, len(found))).long()]


def _herded(
    own: GraphStatistics,
    wanted: GraphStatistics,
    log_confidence: Tensor,
    costs: Tensor,
    count: int,
) -> _Herd:
    """One after the other, each the one that leaves the objective least."""
    alike = kernels_between(own, wanted).sum.mean(dim=1)  # [graph]
    constant = float(wanted.kernels.sum.mean())
    to_set = torch.zeros_like(alike)  # each one's kernels with the set, summed
    left = torch.zeros_like(alike)  # infinite once added
    within = cross = sure = cost = 0.0  # sums over the set
    herd = _Herd([], [])
    for size in range(1, min(count, own.count) + 1):
        squared = (within + 2 * to_set + _TO_ITSELF) / size**2 - 2 * (cross + alike) / size
        doubt = (SURE - (sure + log_confidence) / size).clamp(min=0)
        distance = squared + constant + _DOUBT * doubt
        best = int((distance + (cost + costs) / size + left).argmin())
        herd.order.append(best)
        herd.distances.append(float(distance[best]))
        within += float(2 * to_set[best] + _TO_ITSELF)
        cross += float(alike[best])
        sure += float(log_confidence[best])
        cost += float(costs[best])
        to_set += kernels_between(own, own.select(torch.tensor([best]))).sum[:, 0]
        left[best] = math.inf
    return herd
