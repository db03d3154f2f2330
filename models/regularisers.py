"""What a class explanation is wished to be besides confident: terms added to the GNN's choice.

A term is a number per candidate, in nats like the log-probability it is added to; higher is
better. Anything with `weight` and `score` can be plugged in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from models.connectivity import component_counts
from models.graphs import DenseGraphs

RegulariserName = Literal["likelihood", "connectivity", "sparsity", "size"]


@dataclass(frozen=True)
class ReferenceShape:
    """What connected subgraphs of the class's reference graphs look like, by number of nodes."""

    edges: Tensor  # [nodes + 1] their mean edges
    log_likelihood: Tensor  # [nodes + 1] their mean log-likelihood per node under the denoiser
    largest: int  # most nodes that an explanation may have

    @staticmethod
    def of(subgraphs: DenseGraphs, log_likelihood: Tensor, largest: int) -> ReferenceShape:
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


_KINDS: dict[RegulariserName, type[Likelihood | Connectivity | Sparsity | Size]] = {
    "likelihood": Likelihood,
    "connectivity": Connectivity,
    "sparsity": Sparsity,
    "size": Size,
}
# .2 is measured (method notes). A second component costs a factor e² of confidence, so that a
# disconnected graph is chosen only where nothing connected comes near it.
DEFAULT_WEIGHTS: dict[RegulariserName, float] = {
    "likelihood": 0.2,
    "connectivity": 2.0,
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
