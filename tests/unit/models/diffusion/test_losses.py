"""The distribution loss against torch's own cross-entropy."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from d4explain.gnn.graphs import DenseGraphs, Graph, to_dense
from models.diffusion.losses import distribution_loss

torch.set_num_threads(1)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def triangle_and_path() -> DenseGraphs:
    """Four nodes with a pendant triangle, and a path of three nodes that is padded."""
    triangle = torch.tensor([[0, 0, 1, 2], [1, 2, 2, 3]])
    path = torch.tensor([[0, 1], [1, 2]])
    return to_dense([Graph(torch.ones(4, 1), triangle), Graph(torch.ones(3, 1), path)])


def symmetric_logits(graphs: DenseGraphs, seed: int = 0) -> torch.Tensor:
    drawn = torch.randn(graphs.adjacency.shape, generator=rng(seed))
    return (drawn + drawn.mT) * graphs.pair_mask


def test_distribution_loss_is_the_cross_entropy_over_unordered_pairs() -> None:
    graphs = triangle_and_path()
    logits = symmetric_logits(graphs)
    expected = []
    for position, (nodes, edges) in enumerate(((4, 4), (3, 2))):
        source, target = torch.triu_indices(nodes, nodes, offset=1)
        entropy = F.binary_cross_entropy(
            torch.sigmoid(logits[position, source, target]),
            graphs.adjacency[position, source, target],
            reduction="sum",
        )
        expected.append(entropy / edges)
    torch.testing.assert_close(distribution_loss(logits, graphs), torch.stack(expected))


def test_distribution_loss_ignores_padding() -> None:
    graphs = triangle_and_path()
    logits = symmetric_logits(graphs)
    wider = F.pad(logits, (0, 3, 0, 3), value=50.0)
    padded = DenseGraphs(
        F.pad(graphs.adjacency, (0, 3, 0, 3)),
        F.pad(graphs.features, (0, 0, 0, 3)),
        F.pad(graphs.mask, (0, 3)),
    )
    torch.testing.assert_close(distribution_loss(wider, padded), distribution_loss(logits, graphs))


def test_graphs_without_pairs_or_edges_have_a_finite_loss() -> None:
    no_edges = torch.zeros(2, 0, dtype=torch.int64)
    graphs = to_dense([Graph(torch.ones(1, 1), no_edges), Graph(torch.ones(3, 1), no_edges)])
    logits = torch.zeros(2, 3, 3)
    assert distribution_loss(logits, graphs).tolist() == pytest.approx([0.0, 3 * math.log(2)])
