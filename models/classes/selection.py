"""Which of the graphs that chains went through are the answer, and how much each stands for.

Sure graphs that together look like the class: greedily, the set S with the least

    MMD²(S, class parts) + doubt + mean over S of (own doubt + wishes that are not met),

as in kernel herding (Chen, Welling and Smola 2010), here without repetition. Own doubt is
log .995 - log f, 0 for surer graphs, and costs little; doubt is the same of the mean of log f over
S and costs much: a typical graph may be a little less sure where others are surer. Where the GNN is
hardly sure of any graph, what is asked for is a little less than its surest one. Wishes are the
regularisers' terms. Answers are added as long as S stays far closer to the class than random graphs
are, or near the closest that it came.

Classes have few typical patterns and many rare ones, so that a set without repetition is the less
like the class the more it holds. The herd then goes on with repetition: the share of its draws that
an answer has says how much of the class it stands for, as far as the GNN is sure of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs, Graph, from_dense
from models.graphs.isomorphism import isomorphism_classes
from models.metrics.mmd import GraphStatistics, kernels_between, mmd, statistics

TARGET_LOG_CONFIDENCE = math.log(
    0.995
)  # log f that is not worth raising at the cost of anything else
# Nats of faults beyond the fewest at which a graph is no answer: less than a second component or an
# edge beyond a valence costs.
_WORSE = 1.9
_LESS_SURE = 0.1  # nats of log f that an answer may be below the surest one
_LESS_SURE_ON_AVERAGE = (
    0.004  # and that their mean may be below it, even if that is less than TARGET_LOG_CONFIDENCE
)
_MOST = 6_000  # graphs among which answers are chosen
_TO_ITSELF = 3.0  # a graph's kernels with itself, added up
# In units of MMD² per nat.
_DOUBT = 1_000.0
_OWN_DOUBT = 3.0
_WISH = 0.05
_WISH_OF_SHARES = 0.5  # what is typical is to have the greater share
_DRAWS = 400  # of which each answer has one at least; more if there are many answers
_DRAWS_EACH = 4
# What MMD² and doubt may be for the sake of more answers, all counted alike: a share of the MMD² of
# random graphs, or so much above the least.
_OF_RANDOM = 1 / 8
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
    """The first of each isomorphism class, in order; features count."""
    firsts = dict.fromkeys(isomorphism_classes(graphs))
    return graphs.select(torch.tensor(list(firsts), dtype=torch.long))


@dataclass(frozen=True)
class Choice:
    pool: Pool
    shares: Tensor  # [graph] of the class, as far as the GNN is sure of it; they add up to 1


def chosen(pool: Pool, parts: Sequence[Graph], random: Sequence[Graph], count: int) -> Choice:
    """At most `count` of the pool; `parts` are what the class looks like, `random` what nothing is.

    How many depends on how the distance to `parts` grows compared with that of `random`.
    """
    pool = pool.select(_eligible(pool))
    met = pool.scores - pool.log_confidence.clamp(max=TARGET_LOG_CONFIDENCE)
    sure = min(TARGET_LOG_CONFIDENCE, float(pool.log_confidence.max()) - _LESS_SURE_ON_AVERAGE)
    doubt, unmet = _OWN_DOUBT * (sure - pool.log_confidence).clamp(min=0), met.max() - met
    own, wanted = statistics(from_dense(pool.graphs)), statistics(parts)
    herd = _herded(own, _Likeness.of(own, wanted, pool, doubt + _WISH * unmet, sure), count)
    most = max(min(herd.distances) + _ABOVE_BEST, _OF_RANDOM * mmd(statistics(random), wanted).sum)
    last = max(place for place, distance in enumerate(herd.distances) if distance <= most)
    order = torch.tensor(herd.order[: last + 1])
    pool, own = pool.select(order), own.select(order)
    costs = (doubt + _WISH_OF_SHARES * unmet)[order]
    draws = _drawn(own.kernels.sum, _Likeness.of(own, wanted, pool, costs, sure))
    return Choice(pool, draws.times / draws.size)


def _eligible(pool: Pool) -> Tensor:
    """Positions of the sure ones among those with few faults, however they score.

    Scores rank what is likeliest first, so that a cut by score leaves many graphs of one kind and
    more of them the longer chains run. Where there are too many they are thinned out evenly.
    """
    few = pool.faults <= pool.faults.min() + _WORSE
    surest = pool.log_confidence[few].max()
    found = (few & (pool.log_confidence >= surest - _LESS_SURE)).nonzero().flatten()
    return found[torch.linspace(0, len(found) - 1, min(_MOST, len(found))).long()]


@dataclass(frozen=True)
class _Likeness:
    """What a set's objective is made of, apart from how alike its graphs are to one another."""

    alike: Tensor  # [graph] mean kernels with class parts
    constant: float  # mean kernels of class parts with one another
    log_confidence: Tensor  # [graph]
    costs: Tensor  # [graph]
    sure: float  # log f that is asked for on average

    @staticmethod
    def of(
        own: GraphStatistics, wanted: GraphStatistics, pool: Pool, costs: Tensor, sure: float
    ) -> _Likeness:
        alike = kernels_between(own, wanted).sum.mean(dim=1)
        constant = float(wanted.kernels.sum.mean())
        return _Likeness(alike, constant, pool.log_confidence.double(), costs.double(), sure)


class _Herd:
    """A growing set of graphs, some of them perhaps several times."""

    def __init__(self, likeness: _Likeness) -> None:
        self.order: list[int] = []  # positions as they were added
        self.distances: list[float] = []  # MMD² and doubt after each
        self.times = torch.zeros_like(likeness.alike)
        self._likeness = likeness
        self._to_set = torch.zeros_like(likeness.alike)  # each one's kernels with the set, summed
        # sums over the set, the first over its pairs
        self._within = self._cross = self._sure = self._cost = 0.0

    @property
    def size(self) -> int:
        return len(self.order)

    def objectives(self) -> Tensor:
        """Of the set with one more graph, up to a constant: [graph]."""
        each, size = self._likeness, self.size + 1
        squared = (self._within + 2 * self._to_set + _TO_ITSELF) / size**2
        squared -= 2 * (self._cross + each.alike) / size
        doubt = (each.sure - (self._sure + each.log_confidence) / size).clamp(min=0)
        return squared + _DOUBT * doubt + (self._cost + each.costs) / size

    def add(self, place: int, kernels: Tensor) -> None:
        """`kernels` [graph] are those of the added graph with each."""
        each = self._likeness
        self._within += float(2 * self._to_set[place] + _TO_ITSELF)
        self._cross += float(each.alike[place])
        self._sure += float(each.log_confidence[place])
        self._cost += float(each.costs[place])
        self._to_set += kernels
        self.times[place] += 1
        self.order.append(place)
        squared = self._within / self.size**2 - 2 * self._cross / self.size
        doubt = max(0.0, each.sure - self._sure / self.size)
        self.distances.append(squared + each.constant + _DOUBT * doubt)


def _herded(own: GraphStatistics, likeness: _Likeness, count: int) -> _Herd:
    """One after the other, each the one that leaves the objective least."""
    herd = _Herd(likeness)
    for _ in range(min(count, own.count)):
        best = int(herd.objectives().masked_fill(herd.times > 0, math.inf).argmin())
        herd.add(best, kernels_between(own, own.select(torch.tensor([best]))).sum[:, 0])
    return herd


def _drawn(kernels: Tensor, likeness: _Likeness) -> _Herd:
    """All once, and then again and again what leaves the objective least."""
    herd = _Herd(likeness)
    for place, own in enumerate(kernels):
        herd.add(place, own)
    while herd.size < max(_DRAWS, _DRAWS_EACH * len(kernels)):
        best = int(herd.objectives().argmin())
        herd.add(best, kernels[best])
    return herd
