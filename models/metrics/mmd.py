"""Distance of two sets of graphs: MMD of degrees, clustering coefficients and Laplacian spectra.

The conventions are those of GraphRNN (You et al. 2018) for degree and clustering, and those of the
evaluation of DiGress (Vignac et al. 2022, the earth mover's option) for the spectrum:

- Each graph has three normalised histograms: the degrees of its nodes (bins 0, 1, 2, …), its local
  clustering coefficients (100 bins over [0, 1]) and the eigenvalues of its normalised Laplacian
  (200 bins over [-1e-5, 2]; the end bins also get values that rounding moved outside).
- The kernel is exp(-EMD² / (2 sigma²)). Degree and spectrum: neighbouring bins are 1 apart, sigma
  is 1. Clustering: neighbouring bins are 1/100 apart, sigma is 1/10.
- The result is the biased estimate of MMD², with the diagonal: mean k(a, a') + mean k(b, b')
  - 2 mean k(a, b). It is neither rooted nor made absolute.

In one dimension, EMD is the L1 distance of the cumulative histograms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph, like_sized, to_dense

_CLUSTERING_BINS = 100
_SPECTRUM_BINS = 200
_SPECTRUM_LOW, _SPECTRUM_HIGH = -1e-5, 2.0

_MAX_CACHED_NULLS = 64
_PAIRS_PER_BATCH = 2_000_000  # entries of one adjacency batch, 16 MB in float64


@dataclass(frozen=True)
class GraphStatistics:
    """Normalised histograms of a set of graphs, one row per graph, float64 on the CPU."""

    degree: Tensor  # [graph, largest degree + 1]
    clustering: Tensor  # [graph, 100]
    spectrum: Tensor  # [graph, 200]

    @property
    def count(self) -> int:
        return self.degree.shape[0]

    def select(self, index: Tensor) -> GraphStatistics:
        return GraphStatistics(self.degree[index], self.clustering[index], self.spectrum[index])

    @cached_property
    def kernels(self) -> Kernels:
        """Kernels of the set with itself, computed once for all comparisons."""
        return kernels_between(self, self)

    @cached_property
    def own(self) -> MmdScore:
        """Means of the set's own kernels, a term of every comparison."""
        kernels = self.kernels
        return MmdScore(
            degree=float(kernels.degree.mean()),
            clustering=float(kernels.clustering.mean()),
            spectrum=float(kernels.spectrum.mean()),
        )

    def null(self, n: int, draws: int, seed: int) -> Tensor:
        """`null_distribution` for a seed: [draws], cached for the next set of the same size."""
        key = (n, draws, seed)
        if key not in self._nulls:
            if len(self._nulls) == _MAX_CACHED_NULLS:
                self._nulls.pop(next(iter(self._nulls)))
            generator = torch.Generator().manual_seed(seed)
            self._nulls[key] = null_distribution(self, n, draws, generator)
        return self._nulls[key]

    @cached_property
    def _nulls(self) -> dict[tuple[object, ...], Tensor]:
        return {}


@dataclass(frozen=True)
class MmdScore:
    degree: float
    clustering: float
    spectrum: float

    @property
    def sum(self) -> float:
        return self.degree + self.clustering + self.spectrum


@dataclass(frozen=True)
class Kernels:
    """Kernel values of every graph of one set with every graph of another: [graph, graph] each."""

    degree: Tensor
    clustering: Tensor
    spectrum: Tensor

    @property
    def sum(self) -> Tensor:
        return self.degree + self.clustering + self.spectrum


def statistics(graphs: Sequence[Graph]) -> GraphStatistics:
    """The histograms of every graph; graphs of equal size share a batch."""
    if not graphs:
        raise ValueError("statistics need at least one graph; got none")
    by_size: dict[int, list[int]] = {}
    for position, graph in enumerate(graphs):
        by_size.setdefault(graph.node_count, []).append(position)
    if 0 in by_size:
        raise ValueError(f"graph {by_size[0][0]} has no nodes")

    largest_degree = max(_largest_degree(graph) for graph in graphs)
    degree = torch.zeros(len(graphs), largest_degree + 1, dtype=torch.float64)
    clustering = torch.zeros(len(graphs), _CLUSTERING_BINS, dtype=torch.float64)
    spectrum = torch.zeros(len(graphs), _SPECTRUM_BINS, dtype=torch.float64)
    for size, members in by_size.items():
        for batch in like_sized([size] * len(members), _PAIRS_PER_BATCH):
            chosen = torch.tensor([members[i] for i in batch])
            adjacency = to_dense([graphs[i] for i in chosen.tolist()]).adjacency.double().cpu()
            degrees = adjacency.sum(dim=2)  # [graph, node]
            degree[chosen] = _histogram(degrees.long(), largest_degree + 1)
            clustering[chosen] = _histogram(
                _bins(_clustering(adjacency, degrees), 0.0, 1.0, _CLUSTERING_BINS),
                _CLUSTERING_BINS,
            )
            spectrum[chosen] = _histogram(
                _bins(
                    _laplacian_eigenvalues(adjacency, degrees),
                    _SPECTRUM_LOW,
                    _SPECTRUM_HIGH,
                    _SPECTRUM_BINS,
                ),
                _SPECTRUM_BINS,
            )
    return GraphStatistics(degree, clustering, spectrum)


def mmd(a: GraphStatistics, b: GraphStatistics) -> MmdScore:
    """MMD² of each statistic."""
    between = kernels_between(a, b)

    def squared(own: float, other: float, cross: Tensor) -> float:
        return own + other - 2 * float(cross.mean())

    return MmdScore(
        degree=squared(a.own.degree, b.own.degree, between.degree),
        clustering=squared(a.own.clustering, b.own.clustering, between.clustering),
        spectrum=squared(a.own.spectrum, b.own.spectrum, between.spectrum),
    )


def null_distribution(
    reference: GraphStatistics,
    n: int,
    draws: int,
    generator: torch.Generator,
) -> Tensor:
    """Sums of MMD² between `n` graphs drawn from the reference and its m other graphs: [draws].

    With s marking the drawn graphs and K the sum of the three kernels, it is
    sᵀKs/n² + (1-s)ᵀK(1-s)/m² - 2 sᵀK(1-s)/(nm), in float64.
    """
    if not 1 <= n < reference.count:
        raise ValueError(
            f"the null distribution draws n of {reference.count} graphs, at least one and not all; "
            f"got n = {n}"
        )
    total = reference.kernels.sum  # [graph, graph]
    order = torch.rand(draws, reference.count, generator=generator).argsort(dim=1)
    weights = torch.full_like(order, 0, dtype=torch.float64)  # s/n - (1-s)/m per draw
    weights.scatter_(1, order[:, :n], 1 / n)
    weights.scatter_(1, order[:, n:], -1 / (reference.count - n))
    return ((weights @ total) * weights).sum(dim=1)


def kernels_between(a: GraphStatistics, b: GraphStatistics) -> Kernels:
    bins = max(a.degree.shape[1], b.degree.shape[1])
    degree_a, degree_b = (
        torch.nn.functional.pad(part.degree, (0, bins - part.degree.shape[1])) for part in (a, b)
    )
    return Kernels(
        degree=_gaussian_emd(degree_a, degree_b, bin_width=1.0, sigma=1.0),
        clustering=_gaussian_emd(
            a.clustering, b.clustering, bin_width=1 / _CLUSTERING_BINS, sigma=0.1
        ),
        spectrum=_gaussian_emd(a.spectrum, b.spectrum, bin_width=1.0, sigma=1.0),
    )


def _gaussian_emd(a: Tensor, b: Tensor, *, bin_width: float, sigma: float) -> Tensor:
    """[graph of a, bin], [graph of b, bin] → [graph of a, graph of b]."""
    distance = torch.cdist(a.cumsum(dim=1), b.cumsum(dim=1), p=1) * bin_width
    return torch.exp(-distance.square() / (2 * sigma**2))


def _largest_degree(graph: Graph) -> int:
    if graph.edge_count == 0:
        return 0
    return int(torch.bincount(graph.edges.flatten()).max())


def _clustering(adjacency: Tensor, degrees: Tensor) -> Tensor:
    """diag(A³) / (d (d - 1)), zero where d < 2: [graph, node]."""
    walks = (torch.bmm(adjacency, adjacency) * adjacency).sum(dim=2)  # closed, of length 3
    return walks / (degrees * (degrees - 1)).clamp(min=1)


def _laplacian_eigenvalues(adjacency: Tensor, degrees: Tensor) -> Tensor:
    """Eigenvalues of I - D^(-1/2) A D^(-1/2); the row of an isolated node is 0, as in NetworkX."""
    scale = degrees.clamp(min=1).rsqrt()
    laplacian = torch.diag_embed((degrees > 0).double()) - (
        scale[:, :, None] * adjacency * scale[:, None, :]
    )
    eigenvalues: Tensor = torch.linalg.eigvalsh(laplacian)
    return eigenvalues


def _bins(values: Tensor, low: float, high: float, count: int) -> Tensor:
    """The bin of each value, with exactly the bin edges of numpy.histogram.

    Clustering coefficients such as 1/10 lie on an edge, and an edge that is rounded differently
    would move them to another bin.
    """
    edges = torch.arange(count + 1, dtype=torch.float64) * ((high - low) / count) + low
    edges[-1] = high
    return (torch.bucketize(values, edges, right=True) - 1).clamp(0, count - 1)


def _histogram(bins: Tensor, count: int) -> Tensor:
    """Shares per bin of each row: [graph, value] → [graph, bin]."""
    shares = torch.zeros(bins.shape[0], count, dtype=torch.float64)
    ones = torch.ones_like(bins, dtype=torch.float64)
    return shares.scatter_add_(1, bins, ones) / bins.shape[1]
