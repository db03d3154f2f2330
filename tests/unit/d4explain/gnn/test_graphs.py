"""The two forms of graphs and the way between them."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_dense_adj

from d4explain.gnn.graphs import DenseGraphs, Graph, from_dense, like_sized, to_dense, to_sparse

torch.set_num_threads(1)

seeds = st.integers(0, 10_000)


def random_graphs(seed: int, count: int = 5) -> list[Graph]:
    rng = torch.Generator().manual_seed(seed)
    graphs = []
    for density in torch.rand(count, generator=rng).tolist():
        nodes = int(torch.randint(1, 9, (1,), generator=rng))
        kept = torch.rand(nodes, nodes, generator=rng) < density
        edges = torch.triu(kept, diagonal=1).nonzero().T
        graphs.append(Graph(torch.randn(nodes, 3, generator=rng), edges))
    return graphs


def same(a: Graph, b: Graph) -> bool:
    return torch.equal(a.features, b.features) and torch.equal(a.edges, b.edges)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, padding=st.integers(0, 4))
def test_dense_and_back_is_the_same_graph(seed: int, padding: int) -> None:
    graphs = random_graphs(seed)
    widest = max(graph.node_count for graph in graphs)
    returned = from_dense(to_dense(graphs, nodes=widest + padding))
    assert all(same(a, b) for a, b in zip(graphs, returned, strict=True))


@settings(max_examples=40, deadline=None)
@given(seed=seeds)
def test_both_forms_equal_pyg_batches(seed: int) -> None:
    graphs = random_graphs(seed)
    batch = Batch.from_data_list(
        [
            Data(x=g.features, edge_index=torch.cat([g.edges, g.edges.flip(0)], dim=1))
            for g in graphs
        ]
    )
    sparse = to_sparse(graphs)
    assert sparse.count == len(graphs)
    assert torch.equal(sparse.features, batch.x)
    assert torch.equal(sparse.graph_of_node, batch.batch)
    directed = {tuple(pair) for pair in sparse.edge_index.T.tolist()}
    assert directed == {tuple(pair) for pair in batch.edge_index.T.tolist()}
    dense = to_dense(graphs)
    by_pyg = to_dense_adj(batch.edge_index, batch.batch, max_num_nodes=dense.mask.shape[1])
    assert torch.equal(dense.adjacency, by_pyg)


@settings(max_examples=40, deadline=None)
@given(seed=seeds)
def test_pair_mask_marks_two_different_real_nodes(seed: int) -> None:
    graphs = random_graphs(seed)
    dense = to_dense(graphs)
    for mask, graph in zip(dense.pair_mask, graphs, strict=True):
        nodes = graph.node_count
        assert mask.sum() == nodes * (nodes - 1)
        assert not mask.diagonal().any()
        assert not mask[nodes:].any()
    assert not dense.adjacency[~dense.pair_mask].any()


def test_repeat_keeps_copies_together_and_select_picks() -> None:
    dense = to_dense(random_graphs(1, count=3))
    repeated = dense.repeat(2)
    assert repeated.count == 6
    for position in range(6):
        assert torch.equal(repeated.adjacency[position], dense.adjacency[position // 2])
        assert torch.equal(repeated.features[position], dense.features[position // 2])
        assert torch.equal(repeated.mask[position], dense.mask[position // 2])
    picked = dense.select(torch.tensor([2, 0]))
    assert torch.equal(picked.features, dense.features[[2, 0]])
    other = torch.zeros_like(dense.adjacency)
    replaced: DenseGraphs = dense.with_adjacency(other)
    assert replaced.adjacency is other
    assert replaced.mask is dense.mask


def test_features_keep_their_type() -> None:
    graphs = [Graph(torch.ones(2, 1, dtype=torch.float64), torch.tensor([[0], [1]]))]
    assert to_dense(graphs).adjacency.dtype == torch.float64
    assert to_sparse(graphs).features.dtype == torch.float64


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(1, 40), max_size=60), budget=st.integers(1, 8000))
def test_like_sized_batches_hold_every_graph_once_within_budget(
    sizes: list[int], budget: int
) -> None:
    batches = like_sized(sizes, budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(sizes)))
    for batch in batches:
        widest = max(sizes[index] for index in batch)
        assert len(batch) == 1 or len(batch) * widest**2 <= budget
    in_order = [sizes[index] for batch in batches for index in batch]
    assert in_order == sorted(sizes)


def test_like_sized_fills_batches() -> None:
    assert like_sized([3, 2, 3, 2], 18) == [[1, 3], [0, 2]]
    assert like_sized([5, 1], 10) == [[1], [0]]
