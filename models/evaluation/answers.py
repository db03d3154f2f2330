"""What an evaluation keeps of one instance: the answer of one explainer, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from d4explain.gnn.graphs import Graph

Pair = tuple[int, int]


@dataclass(frozen=True)
class InstanceAnswer:
    """The first answer of an explainer for one graph; None where there is no answer."""

    position: int  # of the instance in the evaluation
    nodes: int
    edges: int
    old_class: int
    label: int | None = None  # of the data set
    new_class: int | None = None
    added: tuple[Pair, ...] = ()
    removed: tuple[Pair, ...] = ()
    fidelity: float | None = None
    connected: bool | None = None
    verdict: str | None = None  # meaningful, brittle or unjudged; None if nobody was asked
    agrees: tuple[bool, ...] = ()  # per judge: it classifies the original like the GNN
    shares: tuple[bool, ...] = ()  # per judge: it shares the flip
    typicality_before: float | None = None
    typicality: float | None = None  # of the answer
    answer_count: int = 0
    diversity: float | None = None  # mean Jaccard distance of the alternatives
    robust_share: float | None = None  # of noisy copies of the answer that keep the new class
    robust_share_before: float | None = None  # of noisy copies of the original, the old class
    stability: float | None = None  # mean Jaccard similarity of the edits over seeds
    gnn_evaluations: int = 0
    gnn_gradients: int = 0
    cpu_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def found(self) -> bool:
        return self.new_class is not None

    @property
    def edits(self) -> int | None:
        """The number of edits; None without an answer."""
        return len(self.added) + len(self.removed) if self.found else None

    @property
    def ratio(self) -> float | None:
        """The modification ratio; a graph without edges counts as one edge."""
        return None if self.edits is None else self.edits / max(self.edges, 1)


def edited_graph(original: Graph, answer: InstanceAnswer) -> Graph:
    """The answer as a graph, with sorted edges and without edge attributes."""
    return toggled(original, [*answer.added, *answer.removed])


def toggled(original: Graph, pairs: Sequence[Pair]) -> Graph:
    """The graph with these pairs toggled; edges are sorted and carry no attributes."""
    present = set(map(tuple, original.edges.T.tolist()))
    edges = sorted(present.symmetric_difference(pairs))
    return replace(
        original,
        edges=torch.tensor(edges, dtype=torch.int64).view(-1, 2).T.contiguous(),
        edge_attributes=None,
        usual=None,
    )
