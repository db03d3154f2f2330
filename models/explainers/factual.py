"""Factual explanations: the edges that a prediction rests on, and how good such an explanation is.

The explanation G_S keeps only the k edges with the highest scores; the complement lacks them. Both
are discrete graphs with all nodes, judged by the sparse GNN. With ŷ the predicted class, as in
`torch_geometric.explain.metric`, for one graph:

- fidelity+ is 1 if the complement has another class: the edges are necessary.
- fidelity− is 1 if G_S has another class: the edges are not sufficient.
- characterization is the harmonic mean of fidelity+ and 1 − fidelity−.
- unfaithfulness is 1 − exp(−KL(p(y | G) ‖ p(y | G_S))), as its authors define it
  (arXiv 2208.09339); PyG documents the same and computes KL(p(y | G_S) ‖ p(y | G)).

PyG masks messages of removed edges, which equals deletion for sum aggregation only; here the edges
are deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.explain.metric import characterization_score

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from models.explainers.interface import EdgeScores

_LEAST_PROBABILITY = 1e-30


@dataclass(frozen=True)
class FactualExplanation:
    edges: Tensor  # [edge] scores
    nodes: Tensor  # [node] scores: the method's own, or the mean over a node's edges
    kept: Tensor  # [edge] bool, the edges of the explanation
    probabilities_kept: Tensor  # [class] of the graph with these edges alone
    probabilities_without: Tensor  # [class] of the graph without them
    fidelity_plus: float
    fidelity_minus: float
    characterization: float  # 0 if fidelity+ is 0 or fidelity− is 1
    unfaithfulness: float


def factual_explanation(
    gnn: Gnn, graph: Graph, scores: EdgeScores, *, edges: int, device: torch.device
) -> FactualExplanation:
    """Keeps the `edges` highest scores, at least one; equal scores in the order of the edges."""
    order = scores.edges.argsort(descending=True, stable=True)
    kept = torch.zeros(graph.edge_count, dtype=torch.bool)
    kept[order[: max(edges, 1)]] = True
    before, alone, without = predict(
        gnn, [graph, _with_edges(graph, kept), _with_edges(graph, ~kept)], device
    )
    predicted = int(before.argmax())
    plus = float(int(without.argmax()) != predicted)
    minus = float(int(alone.argmax()) != predicted)
    return FactualExplanation(
        edges=scores.edges,
        nodes=_node_scores(graph, scores),
        kept=kept,
        probabilities_kept=alone,
        probabilities_without=without,
        fidelity_plus=plus,
        fidelity_minus=minus,
        characterization=_characterization(plus, minus),
        unfaithfulness=unfaithfulness(before, alone),
    )


def unfaithfulness(before: Tensor, kept: Tensor) -> float:
    """1 − exp(−KL(before ‖ kept)) of two [class] distributions."""
    logs = [values.double().clamp(min=_LEAST_PROBABILITY).log() for values in (before, kept)]
    divergence = float((before.double() * (logs[0] - logs[1])).sum())
    return -float(torch.expm1(torch.tensor(-max(divergence, 0.0))))


def _characterization(plus: float, minus: float) -> float:
    """PyG's score divides by fidelity+ and by 1 − fidelity−."""
    if plus == 0 or minus == 1:
        return 0.0
    return float(characterization_score(torch.tensor(plus), torch.tensor(minus)))


def _node_scores(graph: Graph, scores: EdgeScores) -> Tensor:
    if scores.nodes is not None:
        return scores.nodes
    ends = graph.edges.flatten()
    total = torch.zeros(graph.node_count).index_add(0, ends, scores.edges.repeat(2))
    degree = torch.bincount(ends, minlength=graph.node_count)
    return total / degree.clamp(min=1)


def _with_edges(graph: Graph, kept: Tensor) -> Graph:
    return graph.with_edges(graph.edges[:, kept])
