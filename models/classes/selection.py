"""Selects the answers from the graphs that the chains visited, with their shares of the class.

The selection is greedy. It minimises over sets S of graphs

    MMD²(S, class parts) + confidence gap of S + mean over S of (own gap + regulariser loss),

as in kernel herding (Chen, Welling and Smola 2010), here without repetition. The own gap of a graph
is log .995 - log f, at least 0, with a small weight. The confidence gap of S is the same for the
mean of log f over S, with a large weight: the GNN may be less confident of a typical graph if it is
more confident of others. If the GNN is hardly confident of any graph, the target is slightly below
its most confident graph. Answers are added while S stays far closer to the class than random graphs
are, or near its smallest distance.

Classes have few typical patterns and many rare ones, so a set without repetition resembles the
class less the larger it is. The selection therefore goes on with repetition: the share of the draws
of an answer is its share of the class.
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

# A higher log f is not worth a worse value of any other term.
TARGET_LOG_CONFIDENCE = math.log(0.995)
# Faults, in nats, that an answer may have beyond the fewest; less than the cost of a second
# component or of an edge beyond a valence.
_FAULT_TOLERANCE = 1.9
# Nats that the log f of an answer, and the mean over the answers, may be below the highest log f.
_CONFIDENCE_TOLERANCE = 0.1
_MEAN_CONFIDENCE_TOLERANCE = 0.004
_MAX_ELIGIBLE = 6_000  # graphs
_SELF_KERNEL = 3.0  # sum of a graph's three kernels with itself
# In units of MMD² per nat.
_GAP_WEIGHT = 1_000.0
_OWN_GAP_WEIGHT = 3.0
_REGULARISER_WEIGHT = 0.05
_SHARE_REGULARISER_WEIGHT = 0.5  # typical graphs get the larger share
_DRAWS = 400  # draws with repetition, or more if there are many answers
_DRAWS_PER_ANSWER = 4
# Answers are added while MMD² plus confidence gap is below this share of the MMD² of random graphs,
# or within this tolerance of its minimum.
_RANDOM_SHARE = 1 / 8
_DISTANCE_TOLERANCE = 0.05


@dataclass(frozen=True)
class Pool:
    """Graphs to choose answers from, no two isomorphic."""

    graphs: DenseGraphs
    log_confidence: Tensor  # [graph] log f
    log_likelihood: Tensor  # [graph]
    scores: Tensor  # [graph] regularised
    faults: Tensor  # [graph] cost in nats of unwanted properties, such as a second component

    def select(self, index: Tensor) -> Pool:
        return Pool(
            self.graphs.select(index),
            self.log_confidence[index],
            self.log_likelihood[index],
            self.scores[index],
            self.faults[index],
        )

    def mean_best(self, size: int, count: int) -> float:
        """Mean of the best scores of graphs of a size; -inf if there are none."""
        own = self.scores[self.graphs.mask.sum(dim=1) == size]
        return float(own.topk(min(count, len(own))).values.mean()) if len(own) else -math.inf


def distinct(graphs: DenseGraphs) -> DenseGraphs:
    """The first graph of each isomorphism class, in order; features count."""
    firsts = dict.fromkeys(isomorphism_classes(graphs))
    return graphs.select(torch.tensor(list(firsts), dtype=torch.long))


@dataclass(frozen=True)
class SelectedGraphs:
    pool: Pool
    shares: Tensor  # [graph] share of the class; the shares add up to 1


def select_graphs(
    pool: Pool, parts: Sequence[Graph], random: Sequence[Graph], count: int
) -> SelectedGraphs:
    """At most `count` of the pool; `parts` are samples of the class, `random` are baseline graphs.

    The number depends on the distance to `parts` compared with that of `random`.
    """
    pool = pool.select(_eligible(pool))
    regulariser_score = pool.scores - pool.log_confidence.clamp(max=TARGET_LOG_CONFIDENCE)
    target = min(
        TARGET_LOG_CONFIDENCE, float(pool.log_confidence.max()) - _MEAN_CONFIDENCE_TOLERANCE
    )
    regulariser_loss = regulariser_score.max() - regulariser_score
    own_gap = _OWN_GAP_WEIGHT * (target - pool.log_confidence).clamp(min=0)
    own, wanted = statistics(from_dense(pool.graphs)), statistics(parts)
    costs = own_gap + _REGULARISER_WEIGHT * regulariser_loss
    selected = _select_greedily(own, _Objective.of(own, wanted, pool, costs, target), count)
    most = max(
        min(selected.distances) + _DISTANCE_TOLERANCE,
        _RANDOM_SHARE * mmd(statistics(random), wanted).sum,
    )
    last = max(position for position, distance in enumerate(selected.distances) if distance <= most)
    order = torch.tensor(selected.order[: last + 1])
    pool, own = pool.select(order), own.select(order)
    costs = (own_gap + _SHARE_REGULARISER_WEIGHT * regulariser_loss)[order]
    draws = _draw_with_repetition(own.kernels.sum, _Objective.of(own, wanted, pool, costs, target))
    return SelectedGraphs(pool, draws.times / draws.size)


def _eligible(pool: Pool) -> Tensor:
    """Positions of the confident graphs among those with few faults, whatever their scores.

    A cut by score would leave many graphs of the likeliest kind, more the longer chains run. If
    there are too many graphs, they are thinned out evenly.
    """
    few = pool.faults <= pool.faults.min() + _FAULT_TOLERANCE
    highest = pool.log_confidence[few].max()
    eligible = (few & (pool.log_confidence >= highest - _CONFIDENCE_TOLERANCE)).nonzero().flatten()
    return eligible[torch.linspace(0, len(eligible) - 1, min(_MAX_ELIGIBLE, len(eligible))).long()]


@dataclass(frozen=True)
class _Objective:
    """The terms of the objective, apart from the kernels between the selected graphs."""

    to_class: Tensor  # [graph] mean kernels with class parts
    constant: float  # mean kernels of class parts with one another
    log_confidence: Tensor  # [graph]
    costs: Tensor  # [graph]
    target: float  # log f wanted on average

    @staticmethod
    def of(
        own: GraphStatistics, wanted: GraphStatistics, pool: Pool, costs: Tensor, target: float
    ) -> _Objective:
        to_class = kernels_between(own, wanted).sum.mean(dim=1)
        constant = float(wanted.kernels.sum.mean())
        return _Objective(to_class, constant, pool.log_confidence.double(), costs.double(), target)


class _SelectedSet:
    """A growing multiset of graphs."""

    def __init__(self, objective: _Objective) -> None:
        self.order: list[int] = []  # positions in the order of selection
        self.distances: list[float] = []  # MMD² plus weighted confidence gap after each
        self.times = torch.zeros_like(objective.to_class)
        self._objective = objective
        # Sum of each graph's kernels with the set.
        self._to_set = torch.zeros_like(objective.to_class)
        # Sums over the set; the first is over its pairs.
        self._within = self._cross = self._log_confidence_sum = self._cost_sum = 0.0

    @property
    def size(self) -> int:
        return len(self.order)

    def objectives(self) -> Tensor:
        """Objective of the set with one more graph, up to a constant: [graph]."""
        each, size = self._objective, self.size + 1
        squared = (self._within + 2 * self._to_set + _SELF_KERNEL) / size**2
        squared -= 2 * (self._cross + each.to_class) / size
        confidence_gap = (
            each.target - (self._log_confidence_sum + each.log_confidence) / size
        ).clamp(min=0)
        return squared + _GAP_WEIGHT * confidence_gap + (self._cost_sum + each.costs) / size

    def add(self, position: int, kernels: Tensor) -> None:
        """Adds a graph; `kernels` [graph] are its kernels with every graph."""
        each = self._objective
        self._within += float(2 * self._to_set[position] + _SELF_KERNEL)
        self._cross += float(each.to_class[position])
        self._log_confidence_sum += float(each.log_confidence[position])
        self._cost_sum += float(each.costs[position])
        self._to_set += kernels
        self.times[position] += 1
        self.order.append(position)
        squared = self._within / self.size**2 - 2 * self._cross / self.size
        confidence_gap = max(0.0, each.target - self._log_confidence_sum / self.size)
        self.distances.append(squared + each.constant + _GAP_WEIGHT * confidence_gap)


def _select_greedily(own: GraphStatistics, objective: _Objective, count: int) -> _SelectedSet:
    """Adds the graph with the smallest objective, without repetition."""
    selected = _SelectedSet(objective)
    for _ in range(min(count, own.count)):
        best = int(selected.objectives().masked_fill(selected.times > 0, math.inf).argmin())
        selected.add(best, kernels_between(own, own.select(torch.tensor([best]))).sum[:, 0])
    return selected


def _draw_with_repetition(kernels: Tensor, objective: _Objective) -> _SelectedSet:
    """Adds every graph once, then repeatedly the graph with the smallest objective."""
    selected = _SelectedSet(objective)
    for position, own in enumerate(kernels):
        selected.add(position, own)
    while selected.size < max(_DRAWS, _DRAWS_PER_ANSWER * len(kernels)):
        best = int(selected.objectives().argmin())
        selected.add(best, kernels[best])
    return selected
