"""Which node of a graph corresponds to which node of another, so that few edits remain.

With unit costs, the edit distance of graphs G and H is the minimum over assignments of the nodes
(slots without a node fill up the smaller graph) of

    nodes whose types differ  +  |E_G| + |E_H| - 2 · edges that both have,

a quadratic assignment problem. Replacing a node never costs more than removing it and inserting
another, so that no further assignments need to be considered. Graduated assignment (Gold and
Rangarajan 1996) solves a soft version while its temperature falls; swaps of two nodes improve the
rounded result. Each assignment is an edit path, so its cost is never below the distance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from models.global_counterfactuals.typed_graphs import NO_NODE, Slots, TypedGraph

# Of 420 pairs of molecules (Mutagenicity) that one run of the method of Vogelstein et al. (2015)
# left up to 1.5 times too far apart, three starts find 32 % within the radius, 25 runs of that
# method 27 % in six times the time, and a tabu search 14 %.
_FIRST_SHARPNESS = 0.4
_LAST_SHARPNESS = 4.0
_SHARPENING = 1.15
_PASSES = 2  # at each sharpness
_BALANCING = 6  # of rows and columns, in each pass
_NOISE = 0.1  # breaks ties between symmetric nodes, differently in each start
_WALK_WEIGHTS = (2.0, 1.0, 0.5, 0.2)  # of walks of 0, 1, 2 and 3 steps
_WALK_LIKENESS = 0.1
_GRAPHS_AT_ONCE = 64


@dataclass(frozen=True)
class Alignments:
    """Graphs whose nodes are in the slots of the pattern that they were aligned with."""

    costs: Tensor  # [graph] edits from each graph to the pattern
    slots: Slots
    nodes: Tensor  # [graph, slot] the node of the graph in each slot; NO_NODE if there is none


def align(
    pattern: TypedGraph,
    graphs: list[TypedGraph],
    kinds: int,
    generator: torch.Generator,
    *,
    slots: int,
    starts: int,
) -> Alignments:
    """Aligns each graph with the pattern; `kinds` is the number of node types.

    The best of several starts counts. No graph may have more nodes than there are slots.
    """
    parts = [
        _align_some(
            pattern,
            graphs[first : first + _GRAPHS_AT_ONCE],
            kinds,
            generator,
            slots=slots,
            starts=starts,
        )
        for first in range(0, len(graphs), _GRAPHS_AT_ONCE)
    ]
    return Alignments(
        torch.cat([part.costs for part in parts]),
        Slots(
            torch.cat([part.slots.types for part in parts]),
            torch.cat([part.slots.adjacency for part in parts]),
        ),
        torch.cat([part.nodes for part in parts]),
    )


def _align_some(
    pattern: TypedGraph,
    graphs: list[TypedGraph],
    kinds: int,
    generator: torch.Generator,
    *,
    slots: int,
    starts: int,
) -> Alignments:
    one, others = Slots.of([pattern], slots), Slots.of(graphs, slots)
    same = (one.types[:, :, None] == others.types[:, None, :]).float()  # [graph, slot, slot]
    likeness = same - _WALK_LIKENESS * torch.cdist(_walks(one, kinds), _walks(others, kinds), p=1)
    fixed = _Fixed(one.adjacency, others.adjacency, same)
    best, best_order = None, None
    for _ in range(starts):
        noise = _NOISE * torch.rand(same.shape, generator=generator)
        order = _improved(_rounded(_graduated(fixed, likeness + noise)), fixed)
        agreement = fixed.agreement(order)
        if best is None or best_order is None:
            best, best_order = agreement, order
        else:
            better = agreement > best
            best = torch.where(better, agreement, best)
            best_order = torch.where(better[:, None], order, best_order)
    assert best is not None
    assert best_order is not None
    edges = (one.adjacency.sum() + others.adjacency.sum(dim=(1, 2))) / 2
    inside = torch.tensor([graph.node_count for graph in graphs])[:, None]
    nodes = torch.where(best_order < inside, best_order, NO_NODE)
    return Alignments(slots + edges - best, others.reordered(best_order), nodes)


@dataclass(frozen=True)
class _Fixed:
    """What stays the same while assignments are improved."""

    pattern: Tensor  # [1, slot, slot] adjacency
    others: Tensor  # [graph, slot, slot] adjacency
    same: Tensor  # [graph, slot of the pattern, slot of the graph] whether the types are equal

    def agreement(self, order: Tensor) -> Tensor:
        """Equal types + 2 · common edges, of [graph, slot] assignments: [graph]."""
        common = (self.pattern * _reordered(self.others, order)).sum(dim=(1, 2))
        return common + torch.gather(self.same, 2, order[:, :, None]).sum(dim=(1, 2))


def _walks(slots: Slots, kinds: int) -> Tensor:
    """Weighted counts of the types at the ends of short walks: [graph, slot, kind · length]."""
    at = torch.nn.functional.one_hot(slots.types + 1, kinds + 1)[:, :, 1:].float()
    parts = []
    for weight in _WALK_WEIGHTS:
        parts.append(weight * at)
        at = slots.adjacency @ at
    return torch.cat(parts, dim=2)


def _graduated(fixed: _Fixed, likeness: Tensor) -> Tensor:
    """A soft assignment: [graph, slot of the pattern, slot of the graph]."""
    soft = torch.full_like(likeness, 1 / likeness.shape[1])
    sharpness = _FIRST_SHARPNESS
    while sharpness < _LAST_SHARPNESS:
        for _ in range(_PASSES):
            gain = 2 * (fixed.pattern @ soft @ fixed.others) + likeness
            soft = (sharpness * (gain - gain.amax(dim=2, keepdim=True))).exp()
            for _ in range(_BALANCING):
                soft = soft / soft.sum(dim=2, keepdim=True)
                soft = soft / soft.sum(dim=1, keepdim=True).clamp_min(1e-9)
        sharpness *= _SHARPENING
    return soft


def _rounded(soft: Tensor) -> Tensor:
    """The assignment with the largest sum: [graph, slot]."""
    rows = [linear_sum_assignment(one, maximize=True)[1] for one in soft.numpy()]
    return torch.from_numpy(np.stack(rows))


def _improved(order: Tensor, fixed: _Fixed) -> Tensor:
    """Swaps two slots at a time while that raises the agreement."""
    order = order.clone()
    slots = order.shape[1]
    active = torch.arange(len(order))
    diagonal = torch.eye(slots, dtype=torch.bool)
    while len(active):
        now = order[active]
        others = _reordered(fixed.others[active], now)
        types = torch.gather(fixed.same[active], 2, now[:, None, :].expand(-1, slots, -1))
        # Entry [i, j]: the agreement of slot i of the pattern if it had the node of slot j.
        moved = 2 * (fixed.pattern @ others) + types
        own = moved.diagonal(dim1=1, dim2=2)
        gain = moved + moved.transpose(1, 2) - own[:, :, None] - own[:, None, :]
        # The edge between both slots stays where it is, but two terms count it as lost.
        gain = (gain + 4 * fixed.pattern * others).masked_fill(diagonal, -1.0)
        best, place = gain.flatten(1).max(dim=1)
        improves = best > 1e-3  # differences are whole numbers
        active, place = active[improves], place[improves]
        one, other = place // slots, place % slots
        order[active, one], order[active, other] = order[active, other], order[active, one]
    return order


def _reordered(adjacency: Tensor, order: Tensor) -> Tensor:
    slots = order.shape[1]
    rows = torch.gather(adjacency, 1, order[:, :, None].expand(-1, -1, slots))
    return torch.gather(rows, 2, order[:, None, :].expand(-1, slots, -1))
