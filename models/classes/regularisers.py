"""What a class explanation is wished to be besides confident: terms added to the GNN's choice.

A term is a number per candidate, in nats like the log-probability it is added to; higher is
better. Anything with `weight` and `score` can be plugged in.
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
from models.metrics.recurrence import are_categories

RegulariserName = Literal["likelihood", "connectivity", "valence", "recurrence", "sparsity", "size"]


@dataclass(frozen=True)
class DegreeLimits:
    """The greatest degree that each kind of node has in reference graphs, as valence for atoms.

    Kinds are feature rows. Where most rows are unique, as with measurements, there are no kinds
    and no limits.
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
        """Edges beyond their limits, summed over the nodes: [batch]; unknown kinds have none."""
        if not len(self.keys):
            return graphs.adjacency.new_zeros(graphs.count)
        keys = row_keys(graphs.features)  # [batch, node]
        kind = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        limits = torch.where(self.keys[kind] == keys, self.degrees[kind], torch.inf)
        return (graphs.adjacency.sum(dim=2) - limits).clamp(min=0).sum(dim=1)


NO_LIMITS = DegreeLimits(torch.empty(0, dtype=torch.float64), torch.empty(0))


@dataclass(frozen=True)
class ReferenceShape:
    """What connected subgraphs of the class's reference graphs look like, by number of nodes."""

    edges: Tensor  # [nodes + 1] their mean edges
    log_likelihood: Tensor  # [nodes + 1] their mean log-likelihood per node under the denoiser
    largest: int  # most nodes that an explanation may have
    limits: DegreeLimits = NO_LIMITS
    frequency: Mapping[int, float] = field(default_factory=dict)  # code → share of its size's
    kinds: bool = True  # feature rows name kinds of nodes and are part of the codes

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
        """Means over the subgraphs of each size; a size without any counts as a tree, and 0."""
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
    """Graphs to choose from, with what the regularisers may look at."""

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
        """[batch], higher is better; multiplied by the weight by whoever adds terms up."""


@dataclass(frozen=True)
class Likelihood:
    """The denoiser's log-likelihood per node: keeps the explanation in distribution.

    Taken against that of reference subgraphs of the same size, which changes no choice between
    graphs of one size and makes sizes comparable.
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
    """Minus the edges that nodes have beyond the most that nodes of their kind were seen with."""

    weight: float

    def score(self, candidates: Candidates) -> Tensor:
        return -candidates.reference.limits.excess(candidates.graphs)


@dataclass(frozen=True)
class Recurrence:
    """The logarithm of how often connected subgraphs of the class are this very graph.

    A graph that was not among those drawn counts as half a draw. Where most feature rows are
    unique, as with measurements, no graph would recur, and edges alone are compared. Graphs are
    compared by their codes: scores of all candidates of all steps are too many for the exact test.
    """

    weight: float

    def score(self, candidates: Candidates) -> Tensor:
        frequency = candidates.reference.frequency
        rarest = min(frequency.values(), default=1.0) / 2
        codes = graph_codes(candidates.graphs, features=candidates.reference.kinds)
        return torch.tensor([frequency.get(code, rarest) for code in codes]).log()


@dataclass(frozen=True)
class Sparsity:
    """Minus the relative gap to the edges that reference subgraphs of the same size have."""

    weight: float

    def score(self, candidates: Candidates) -> Tensor:
        expected = candidates.reference.edges[candidates.nodes]
        return -(candidates.edges - expected).abs() / expected.clamp(min=1)


@dataclass(frozen=True)
class Size:
    """Minus the share of the largest allowed size that has edges: small explanations are wished.

    Isolated nodes say nothing and count nothing.
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
# Likelihood and recurrence are measured: less of them, and answers leave the distribution; more,
# and they are few. A second component costs a factor e² of confidence, as does an edge too many,
# so that such a graph is chosen only where nothing better comes near it.
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
    """The guided sampler's own, with some weights set otherwise; weight 0 leaves one out."""
    asked = DEFAULT_WEIGHTS | dict(weights or {})
    unknown = sorted(set(asked) - set(_KINDS))
    if unknown:
        raise ValueError(f"no regulariser {unknown[0]!r}; there are {sorted(_KINDS)}")
    return tuple(_KINDS[name](weight) for name, weight in asked.items() if weight)


def regularised(
    log_confidence: Tensor, candidates: Candidates, regularisers: Sequence[Regulariser]
) -> Tensor:
    """log f(C | G) + Σ weight · score: [batch]."""
    total = log_confidence
    for regulariser in regularisers:
        total = total + regulariser.weight * regulariser.score(candidates)
    return total


def faults_of(candidates: Candidates, regularisers: Sequence[Regulariser]) -> Tensor:
    """-Σ weight · score of all but those for likeness to the class: [batch], in nats.

    Likeness is a matter of degree that sets of answers are judged by; the rest is asked of each.
    """
    total = candidates.graphs.adjacency.new_zeros(candidates.graphs.count)
    for regulariser in regularisers:
        if not isinstance(regulariser, Likelihood | Recurrence):
            total = total - regulariser.weight * regulariser.score(candidates)
    return total
