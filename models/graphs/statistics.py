"""How far edited graphs are from the input in degrees, clustering, spectrum and components."""

from __future__ import annotations

import torch
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs
from models.graphs.connectivity import component_counts

_PER_COMPONENT = 0.02  # cost of one connected component more or less, as an earth mover's distance


def statistics_shift(graphs: DenseGraphs) -> list[float]:
    """Distance of each graph but the first from the first; small is natural.

    The sum of the earth mover's distances of degrees (over the mean degree), clustering
    coefficients and normalised Laplacian spectra, plus a small cost per connected component more or
    less. All graphs have the same nodes, so a distance is the mean gap between sorted values.
    Likelihood is left out on purpose: its arg max seeks modes and measures worse.
    """
    components = component_counts(graphs)
    shift = torch.zeros(graphs.count)
    for values in _statistics(graphs.adjacency):
        ordered = values.sort(dim=1).values
        shift += (ordered - ordered[:1]).abs().mean(dim=1)
    shift += _PER_COMPONENT * (components - components[0]).abs()
    return shift[1:].tolist()


def _statistics(adjacency: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Degree over mean degree of the first graph, clustering, spectrum: [graph, node] each."""
    degree = adjacency.sum(dim=2)
    triangles = (torch.bmm(adjacency, adjacency) * adjacency).sum(dim=2)  # twice their number
    clustering = triangles / (degree * (degree - 1)).clamp(min=1)
    scale = degree.clamp(min=1).rsqrt()
    # isolated nodes get eigenvalue 0, as in NetworkX
    connected = torch.diag_embed((degree > 0).to(adjacency.dtype))
    laplacian = connected - scale[:, :, None] * adjacency * scale[:, None, :]
    spectrum = torch.linalg.eigvalsh(laplacian)
    return degree / degree[0].mean().clamp(min=1), clustering, spectrum
