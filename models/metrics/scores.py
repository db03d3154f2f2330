"""Quality metrics of explanations, defined on discrete graphs."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph, to_dense
from models.graphs.connectivity import component_counts

Pair = tuple[int, int]

# r = linspace(0, 0.3, 10) = k / 30, as fractions: rounding must not forbid an edit count that is
# exactly allowed.
_CURVE_POINTS = 10
_CURVE_DENOMINATOR = 30


class CurveRule(Enum):
    """How many edits a modification ratio r allows on a graph of |E| edges."""

    STRICT = "strict"  # edits / |E| ≤ r
    ONE_EDIT = "one_edit"  # edits ≤ max(⌈r·|E|⌉, 1)


@dataclass(frozen=True)
class Instance:
    """One explained graph: its edges, and the edits of its smallest verified counterfactual."""

    edges: int
    edits: int | None  # None if no counterfactual was returned


def cf_acc_curve(instances: Sequence[Instance], rule: CurveRule = CurveRule.STRICT) -> Tensor:
    """Share of instances that have a counterfactual within r, at r = 0, 1/30, …, 0.3."""
    if not instances:
        raise ValueError("a CF-ACC curve needs at least one instance; got none")
    return torch.tensor(
        [
            sum(_allowed(instance, step, rule) for instance in instances) / len(instances)
            for step in range(_CURVE_POINTS)
        ],
        dtype=torch.float64,
    )


def cf_acc_auc(curve: Tensor) -> float:
    """Area under the curve by the trapezoidal rule, divided by 0.3: a curve of ones has area 1."""
    return float(torch.trapezoid(curve) / (curve.shape[0] - 1))


def ceiling(edges: Sequence[int], rule: CurveRule = CurveRule.STRICT) -> float:
    """The area if one edit always flipped the GNN; under the strict rule it is below 1."""
    return cf_acc_auc(cf_acc_curve([Instance(count, 1) for count in edges], rule))


def _allowed(instance: Instance, step: int, rule: CurveRule) -> bool:
    if instance.edits is None:
        return False
    if rule is CurveRule.STRICT:
        return instance.edits * _CURVE_DENOMINATOR <= step * instance.edges
    return instance.edits <= max(-(-step * instance.edges // _CURVE_DENOMINATOR), 1)


def fidelity(before: Tensor, after: Tensor) -> float:
    """p_before[y] - p_after[y], y the class predicted before; probabilities [class] each."""
    predicted = int(before.argmax())
    return float(before[predicted] - after[predicted])


def changed_pairs(before: Graph, after: Graph) -> frozenset[Pair]:
    """The undirected pairs that are edges in exactly one of the graphs."""
    return frozenset(_pairs(before) ^ _pairs(after))


def modification_ratio(before: Graph, after: Graph) -> float:
    """(added + removed) / |E|; a graph without edges counts as one edge."""
    return len(changed_pairs(before, after)) / max(before.edge_count, 1)


def density(graph: Graph) -> float:
    """The paper's |E| / |V|² with each edge counted in both directions: a 5-cycle has .4.

    With each edge counted once, no graph could reach the .5 that the paper reports for XGNN.
    """
    return 2 * graph.edge_count / graph.node_count**2


def is_connected(graph: Graph) -> bool:
    return int(component_counts(to_dense([graph]))[0]) == 1


def jaccard_distance(a: Set[Pair], b: Set[Pair]) -> float:
    """1 - |a ∩ b| / |a ∪ b|; two empty sets are equal."""
    union = len(a | b)
    return 1 - len(a & b) / union if union else 0.0


def mean_jaccard_distance(edit_sets: Sequence[Set[Pair]]) -> float | None:
    """Diversity of alternatives: mean over all pairs; None if there are fewer than two."""
    distances = [
        jaccard_distance(a, b) for i, a in enumerate(edit_sets) for b in edit_sets[i + 1 :]
    ]
    return sum(distances) / len(distances) if distances else None


def _pairs(graph: Graph) -> set[Pair]:
    sources, targets = graph.edges.tolist()
    return set(zip(sources, targets, strict=True))
