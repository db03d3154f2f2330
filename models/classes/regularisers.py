"""Regularisers of class explanations: terms added to the GNN's log-probability of a candidate.

A term is one number per candidate, in nats; higher is better. Any object with `weight` and `score`
is a regulariser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs, Graph
from models.graphs.connectivity import component_counts
from models.graphs.isomorphism import graph_codes, row_keys

RegulariserName = Literal["likelihood", "connectivity", "valence", "recurrence", "sparsity", "size"]


@dataclass(frozen=True)
class DegreeLimits:
    """The largest degree of each kind of node in reference graphs, such as the valence of atoms.

    Kinds are feature rows. If most rows are unique, as with measurements, there are no kinds and
    no limits.
    """

    keys: Tensor  # [kind] ascending
    degrees: Tensor  # [kind]

    @staticmethod
    def of(graphs: Sequence[Graph]) -> DegreeLimits:
        rows = torch.cat([graph.features for graph in graphs]).cpu()
        if not are_categories(rows):
            return NO_LIMITS
        degrees = torch.cat(
            [
                torch.bincount(graph.edges.flatten().cpu(), minlength=graph.node_count)
                for graph in graphs
            ]
        )
        keys, kind = torch.unique(row_keys(rows), return_inverse=True)
        greatest = torch.zeros(len(keys)).scatter_reduce_(0, kind, degrees.float(), "amax")
        return DegreeLimits(keys, greatest)

    def excess(self, graphs: DenseGraphs) -> Tensor:
        """Edges beyond the limits, summed over the nodes; unknown kinds have no limit: [batch]."""
        if not len(self.keys):
            return graphs.adjacency.new_zeros(graphs.count)
        keys = row_keys(graphs.features)  # [batch, node]
        kind = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        limits = torch.where(self.keys[kind] == keys, self.degrees[kind], torch.inf)
        return (graphs.adjacency.sum(dim=2) - limits).clamp(min=0).sum(dim=1)


NO_LIMITS = DegreeLimits(torch.empty(0, dtype=torch.float64), torch.empty(0))


@dataclass(frozen=True)
class ReferenceShape:
    """Statistics of connected subgraphs of the class's reference graphs, by number of nodes."""

    edges: Tensor  # [nodes + 1] mean number of edges
    log_likelihood: Tensor  # [nodes + 1] mean log-likelihood per node under the denoiser
    largest: int  # largest allowed number of nodes
    limits: DegreeLimits = NO_LIMITS
    # code → share among subgraphs of that size
    frequency: Mapping[int, float] = field(default_factory=dict)
    kinds: bool = True  # whether feature rows are node kinds and part of the codes

    @staticmethod
    def of(
        subgraphs: DenseGraphs,
        log_likelihood: Tensor,
        largest: int,
        *,
        limits: DegreeLimits = NO_LIMITS,
        frequency: Mapping[int, float] | None = None,
        kinds: bool = True,
    ) -> ReferenceShape:
        """Means over the subgraphs of each size; a size without any gets a tree's edges and 0."""
        nodes = subgraphs.mask.sum(dim=1)
        count = torch.zeros(largest + 1).index_add_(0, nodes, torch.ones(subgraphs.count))
        edges = subgraphs.adjacency.sum(dim=(1, 2)).float() / 2
        total_edges = torch.zeros(largest + 1).index_add_(0, nodes, edges)
        per_node = log_likelihood.float() / nodes
        total_likelihood = torch.zeros(largest + 1).index_add_(0, nodes, per_node)
        tree = (torch.arange(largest + 1) - 1).clamp(min=0).float()
        return ReferenceShape(
            edges=torch.where(count > 0, total_edges / count.clamp(min=1), tree),
            log_likelihood=total_likelihood / count.clamp(min=1),
            largest=largest,
            limits=limits,
            frequency=frequency or {},
            kinds=kinds,
        )


@dataclass(frozen=True)
class Candidates:
    """Graphs to choose from, with the inputs of the regularisers."""

    graphs: DenseGraphs
    log_likelihood: Tensor  # [batch] of the whole graph under the denoiser
    reference: ReferenceShape

    @property
    def nodes(self) -> Tensor:
        return self.graphs.mask.sum(dim=1)

    @property
    def edges(self) -> Tensor:
        return self.graphs.adjacency.sum(dim=(1, 2)) / 2


class Regulariser(Protocol):
    @property
    def weight(self) -> float: ...

    def score(self, candidates: Candidates) -> Tensor:
        """Unweighted scores, higher is better: [batch]."""


@dataclass(frozen=True)
class Likelihood:
    """The denoiser's log-likelihood per node: keeps the explanation in distribution.

    It is relative to reference subgraphs of the same size, which makes sizes comparable.
    """

    weight: float

    def score(self, candidates: Candidates) -> Tensor:
        nodes = candidates.nodes
        return candidates.log_likelihood / nodes - candidates.reference.log_likelihood[nodes]


@dataclass(frozen=True)
class Connectivity:
    """Minus the number of components beyond the first."""

    weight: float

    def score(self, candidates: Candidates) -> Tensor:
        return 1.0 - component_counts(candidates.graphs)


@dataclass(frozen=True)
class Valence:
    """Minus the edges beyond the largest degree seen for each kind of node."""

    weight: float

    def score(self, candidates: Candidates) -> Tensor:
        return -candidates.reference.limits.excess(candidates.graphs)


@dataclass(frozen=True)
class Recurrence:
    """The log of the frequency of this graph among connected subgraphs of the class.

    A graph that was never drawn counts as half a draw. If most feature rows are unique, as with
    measurements, no graph would recur, so only edges are compared. Graphs are compared by their
    codes, because there are too many candidates for the exact test.
    """

    weight: float

    def score(self, candidates: Candidates) -> Tensor:
        frequency = candidates.reference.frequency
        rarest = min(frequency.values(), default=1.0) / 2
        codes = graph_codes(candidates.graphs, features=candidates.reference.kinds)
        return torch.tensor([frequency.get(code, rarest) for code in codes]).log()


@dataclass(frozen=True)
class Sparsity:
    """Minus the relative gap to the number of edges of reference subgraphs of the same size."""

    weight: float

    def score(self, candidates: Candidates) -> Tensor:
        expected = candidates.reference.edges[candidates.nodes]
        return -(candidates.edges - expected).abs() / expected.clamp(min=1)


@dataclass(frozen=True)
class Size:
    """Minus the number of nodes with edges over the largest allowed size.

    Isolated nodes do not count.
    """

    weight: float

    def score(self, candidates: Candidates) -> Tensor:
        linked = (candidates.graphs.adjacency.sum(dim=2) > 0).sum(dim=1)
        return -linked / max(candidates.reference.largest, 1)


_Term = Likelihood | Connectivity | Valence | Recurrence | Sparsity | Size
_KINDS: dict[RegulariserName, type[_Term]] = {
    "likelihood": Likelihood,
    "connectivity": Connectivity,
    "valence": Valence,
    "recurrence": Recurrence,
    "sparsity": Sparsity,
    "size": Size,
}
# The weights of likelihood and recurrence are tuned: lower ones let answers leave the distribution,
# higher ones leave few answers. A second component or an edge beyond a valence costs a factor e² of
# confidence, so such a graph wins only if no other comes close.
DEFAULT_WEIGHTS: dict[RegulariserName, float] = {
    "likelihood": 0.8,
    "connectivity": 2.0,
    "valence": 2.0,
    "recurrence": 0.2,
    "sparsity": 0.0,
    "size": 0.0,
}


def regularisers_for(
    weights: Mapping[RegulariserName, float] | None = None,
) -> tuple[Regulariser, ...]:
    """The guided sampler's regularisers with the given weights; weight 0 removes one."""
    chosen = DEFAULT_WEIGHTS | dict(weights or {})
    unknown = sorted(set(chosen) - set(_KINDS))
    if unknown:
        raise ValueError(f"unknown regulariser {unknown[0]!r}; known: {sorted(_KINDS)}")
    return tuple(_KINDS[name](weight) for name, weight in chosen.items() if weight)


def regularised(
    log_confidence: Tensor, candidates: Candidates, regularisers: Sequence[Regulariser]
) -> Tensor:
    """log f(C | G) + Σ weight · score: [batch]."""
    total = log_confidence
    for regulariser in regularisers:
        total = total + regulariser.weight * regulariser.score(candidates)
    return total


def are_categories(rows: Tensor) -> bool:
    """Whether [node, feature] rows repeat so often that they are node kinds, such as elements."""
    return 2 * len(torch.unique(rows, dim=0)) <= len(rows)
