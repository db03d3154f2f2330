from __future__ import annotations

import torch

from d4explain.gnn.graphs import Graph
from worker.loading.reference_sampling import fixed_sample


def test_the_sample_of_a_large_set_is_fixed() -> None:
    graphs = [Graph(torch.ones(2, 1), torch.tensor([[0], [1]])) for _ in range(50)]
    sample = fixed_sample(graphs, 10, 10**9)
    assert [id(kept) for kept in sample] == [id(kept) for kept in fixed_sample(graphs, 10, 10**9)]
    assert len({id(kept) for kept in sample}) == 10
    assert fixed_sample(graphs, 50, 10**9) == graphs
    # A graph costs nodes³: 8 each, 80 for ten.
    assert len(fixed_sample(graphs, 50, 80)) == 10
    assert len(fixed_sample(graphs, 50, 1)) == 2
