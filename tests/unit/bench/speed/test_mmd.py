"""The plain loop computes the same MMD."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bench.data.synthetic import ba3motif
from bench.speed.mmd import (
    Distance,
    numpy_distance,
    plain_mmd,
    require_equal,
    scipy_distance,
    to_networkx,
)
from models.metrics.mmd import mmd, statistics


@pytest.mark.parametrize("distance", [scipy_distance, numpy_distance])
def test_plain_loop_gives_the_same_scores(distance: Distance) -> None:
    graphs = ba3motif(16, torch.Generator().manual_seed(3)).graphs
    networks = [to_networkx(graph) for graph in graphs]
    score = mmd(statistics(graphs[:9]), statistics(graphs[9:]))
    by_loop = plain_mmd(networks[:9], networks[9:], distance)
    require_equal(score, by_loop)
    assert score.sum > 1e-3
    for name in ("degree", "clustering", "spectrum"):
        other = replace(by_loop, **{name: getattr(by_loop, name) + 1e-7})
        with pytest.raises(ArithmeticError, match=name):
            require_equal(score, other)
