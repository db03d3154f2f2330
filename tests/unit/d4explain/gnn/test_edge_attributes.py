"""Edge attributes through everything that takes graphs apart, edits them and puts them together."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.nn import GINEConv, global_add_pool
from torch_geometric.utils import to_dense_adj

from d4explain.gnn.edge_attributes import UsualAttributes
from d4explain.gnn.errors import NoEdgeAttributesError
from d4explain.gnn.graphs import Graph, from_dense, side_by_side, to_dense, to_sparse
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import GineLayer, GineSumLayer, GnnSpec, LinearLayer, PoolLayer
from models.graphs.edits import EditRules, EditSpace
from models.graphs.isomorphism import graph_codes, marked_codes
from models.graphs.neighbourhoods import edited_whole, instance
from models.graphs.subgraphs import connected_subgraph, neighbours_of

torch.set_num_threads(1)
seeds = st.integers(0, 10_000)
CPU = torch.device("cpu")


def random_graph(seed: int, nodes: int = 8, density: float = 0.4) -> Graph:
    """Three types of nodes, three kinds of edges, and a number that tells every node apart."""
    rng = torch.Generator().manual_seed(seed)
    types = torch.nn.functional.one_hot(torch.randint(3, (nodes,), generator=rng), 3).float()
    features = torch.cat([types, torch.arange(nodes)[:, None] / nodes / 2], dim=1)
    edges = (torch.rand(nodes, nodes, generator=rng) < density).triu(1).nonzero().T.contiguous()
    kinds = torch.randint(3, (edges.shape[1],), generator=rng)
    attributes = torch.nn.functional.one_hot(kinds, 3).float()
    return Graph(features, edges, edge_attributes=attributes)


def counted(graphs: list[Graph]) -> UsualAttributes:
    return UsualAttributes.seen(
        [graph.features for graph in graphs],
        [graph.edges for graph in graphs],
        [graph.edge_attributes for graph in graphs],
    )


def editable(seed: int, nodes: int = 8, density: float = 0.4) -> Graph:
    usual = counted([random_graph(reference) for reference in range(4)])
    return replace(random_graph(seed, nodes, density), usual=usual)


def as_networkx(graph: Graph) -> nx.Graph:
    """Nodes by the number that tells them apart, edges with what they carry."""
    names = graph.features[:, 3].tolist()
    result = nx.Graph()
    result.add_nodes_from(names)
    rows = graph.edge_attributes.tolist()
    for (source, target), row in zip(graph.edges.T.tolist(), rows, strict=True):
        result.add_edge(names[source], names[target], carries=row)
    return result


def random_edits(space: EditSpace, seed: int, count: int = 3) -> tuple[int, ...]:
    order = torch.randperm(space.count, generator=torch.Generator().manual_seed(seed))
    return tuple(sorted(order[:count].tolist()))


@settings(max_examples=40, deadline=None)
@given(seed=seeds)
def test_added_edges_get_the_most_frequent_attributes(seed: int) -> None:
    graphs = [random_graph(seed + i, density=0.15) for i in range(3)]
    seen: dict[tuple[int, int], Counter[tuple[float, ...]]] = {}
    overall: Counter[tuple[float, ...]] = Counter()
    for graph in graphs:
        types = [row[:3].index(1.0) for row in graph.features.tolist()]
        rows = map(tuple, graph.edge_attributes.tolist())
        for (source, target), row in zip(graph.edges.T.tolist(), rows, strict=True):
            pair = min(types[source], types[target]), max(types[source], types[target])
            seen.setdefault(pair, Counter())[row] += 1
            overall[row] += 1

    def most(counts: Counter[tuple[float, ...]]) -> tuple[float, ...]:
        """Of equally frequent ones the smallest."""
        return min(counts, key=lambda row: (-counts[row], row)) if counts else (0.0,) * 3

    found = counted(graphs).between(torch.eye(3, 4))
    for one in range(3):
        for other in range(3):
            counts = seen.get((min(one, other), max(one, other)), overall)
            assert tuple(found[one, other].tolist()) == most(counts)


def test_added_edges_get_zeros_if_no_edge_is_known() -> None:
    found = counted([random_graph(0, density=0.0)])
    assert found.between(torch.eye(2, 4)).tolist() == [[[0.0] * 3] * 2] * 2


@settings(max_examples=30, deadline=None)
@given(seed=seeds)
def test_batches_have_the_edge_attributes_of_pyg(seed: int) -> None:
    graphs = [random_graph(seed, nodes=5), random_graph(seed + 1, nodes=8)]
    sparse, dense = to_sparse(graphs), to_dense(graphs)
    by_pyg = to_dense_adj(sparse.edge_index, sparse.graph_of_node, edge_attr=sparse.edge_attributes)
    assert torch.equal(dense.edge_attributes, by_pyg)  # 0 where nothing is known of added edges
    laid = side_by_side(dense)
    again = to_dense_adj(laid.edge_index, laid.graph_of_node, edge_attr=laid.edge_attributes)
    assert torch.equal(again, by_pyg)
    for before, after in zip(graphs, from_dense(dense), strict=True):
        assert torch.equal(before.edges, after.edges)
        assert torch.equal(before.edge_attributes, after.edge_attributes)
    picked = dense.repeat(2).select(torch.tensor([3, 0]))
    assert torch.equal(picked.edge_attributes, by_pyg[[1, 0]])


def gine(seed: int = 0) -> Gnn:
    layers = (GineLayer(6, 5), GineSumLayer(), PoolLayer("sum"), LinearLayer(2))
    torch.manual_seed(seed)
    return Gnn(GnnSpec(4, 2, layers, edge_features=3)).eval().requires_grad_(False)


def by_pyg(gnn: Gnn, graph: Graph) -> Tensor:
    """Probabilities of the same weights in PyG's own layers."""
    inner = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 6))
    same = nn.Identity()
    same.in_channels = 6
    first, second = GINEConv(inner, edge_dim=3), GINEConv(same, edge_dim=3)
    head = nn.Linear(6, 2)
    for position, module in ((0, first), (1, second), (3, head)):
        name = f"layers.{position}.{'linear' if position == 3 else 'conv'}."
        state = gnn.state_dict().items()
        module.load_state_dict({k.removeprefix(name): v for k, v in state if k.startswith(name)})
    index = torch.cat([graph.edges, graph.edges.flip(0)], dim=1)
    both = graph.edge_attributes.repeat(2, 1)
    with torch.no_grad():
        values = second(first(graph.features, index, both), index, both)
        return head(global_add_pool(values, None))[0].softmax(dim=0)


@settings(max_examples=30, deadline=None)
@given(seed=seeds)
def test_edited_graphs_keep_attributes_and_get_usual_ones(seed: int) -> None:
    graph = editable(seed)
    space = EditSpace.of(graph, EditRules(max_ratio=10))
    edit_sets = [(), *(random_edits(space, seed + i) for i in range(4))]
    between = graph.usual.between(graph.features)
    gnn = gine(seed)
    own = dict(zip(map(tuple, graph.edges.T.tolist()), graph.edge_attributes, strict=True))
    edited = space.apply_all(edit_sets)
    for edits, after in zip(edit_sets, edited, strict=True):
        expected = dict(own)
        for pair in edits:
            ends = int(space.sources[pair]), int(space.targets[pair])
            carried = torch.tensor(space.attributes_of(pair))
            if ends in expected:
                assert torch.equal(carried, expected.pop(ends))
            else:
                expected[ends] = between[ends]
                assert torch.equal(carried, between[ends])
        found = dict(zip(map(tuple, after.edges.T.tolist()), after.edge_attributes, strict=True))
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[ends], expected[ends]) for ends in expected)
        assert torch.equal(graph.with_edges(after.edges).edge_attributes, after.edge_attributes)
    truth = torch.stack([by_pyg(gnn, after) for after in edited])
    torch.testing.assert_close(predict(gnn, edited, CPU), truth, rtol=1e-4, atol=1e-5)
    dense = space.dense(edit_sets)
    with torch.no_grad():
        found = gnn.dense(dense).softmax(dim=1)
        torch.testing.assert_close(found, truth, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(gnn(side_by_side(dense)).softmax(dim=1), truth)


def test_gradients_of_absent_edges_use_the_usual_attributes() -> None:
    """A sum is linear in every edge: the slope is exactly what an edit changes."""
    layers = (GineSumLayer(), PoolLayer("sum"), LinearLayer(2))
    gnn = Gnn(GnnSpec(4, 2, layers, edge_features=3)).eval().requires_grad_(False)
    space = EditSpace.of(editable(3), EditRules(max_ratio=10))
    graphs = space.dense([()])
    adjacency = graphs.adjacency.clone().requires_grad_()
    logit = gnn.dense(graphs.with_adjacency(adjacency))[0, 1]
    (slope,) = torch.autograd.grad(logit, adjacency)
    slope = space.of_pairs((slope + slope.mT)[0]) * torch.where(space.present, -1, 1)
    with torch.no_grad():
        after = gnn.dense(space.dense([(pair,) for pair in range(space.count)]))[:, 1]
    torch.testing.assert_close(slope, after - logit.detach(), rtol=1e-4, atol=1e-5)


def test_attributes_of_added_edges_must_be_known() -> None:
    with pytest.raises(ValueError, match="those of an added edge are unknown"):
        EditSpace.of(random_graph(0), EditRules())
    assert EditSpace.of(random_graph(0), EditRules(add=False)).count > 0


@settings(max_examples=30, deadline=None)
@given(seed=seeds, node=st.integers(0, 14), edit=seeds)
def test_subgraphs_keep_edge_attributes(seed: int, node: int, edit: int) -> None:
    whole = editable(seed, nodes=15, density=0.15)
    truth = as_networkx(whole)
    part = instance(whole, node, layers=2, receptive_field=2)
    found = as_networkx(part.graph)
    assert nx.utils.graphs_equal(found, truth.subgraph(found))
    space = EditSpace.of(part.graph, EditRules(max_ratio=10))
    edits = random_edits(space, edit)
    after = space.apply(edits)
    expected = truth.copy()
    expected.remove_edges_from(list(truth.subgraph(found).edges))
    expected.add_edges_from(as_networkx(after).edges(data=True))
    assert nx.utils.graphs_equal(as_networkx(edited_whole(whole, part, after)), expected)
    grown = connected_subgraph(whole, neighbours_of(whole), 6, torch.Generator().manual_seed(edit))
    assert nx.utils.graphs_equal(as_networkx(grown), truth.subgraph(as_networkx(grown)))
    assert grown.usual is whole.usual is part.graph.usual


def test_graphs_that_differ_only_in_attributes_are_not_isomorphic() -> None:
    graph = random_graph(1)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(0))
    place = torch.argsort(order)
    moved = replace(
        graph, features=graph.features[order], edges=place[graph.edges].sort(dim=0).values
    )
    other = replace(graph, edge_attributes=graph.edge_attributes.roll(1, dims=1))
    same, shuffled, differs = graph_codes(to_dense([graph, moved, other]))
    assert same == shuffled != differs


def test_edits_of_differing_edges_are_different_answers() -> None:
    """Of a ring of equal nodes all edges look alike, unless they carry something."""
    ring = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]])
    usual = UsualAttributes.always(torch.tensor([1.0]))
    plain = torch.ones(4, 1)
    marked = torch.tensor([[1.0], [2.0], [1.0], [1.0]])
    for attributes, kinds in ((plain, 1), (marked, 3)):
        graph = Graph(torch.ones(4, 1), ring, edge_attributes=attributes, usual=usual)
        space = EditSpace.of(graph, EditRules(add=False))
        codes = marked_codes(space, [(pair,) for pair in range(4)])
        # the marked edge, its two neighbours, and the one opposite
        assert len(set(codes)) == kinds


def test_graphs_without_attributes_are_refused_by_name() -> None:
    bare = replace(random_graph(0), edge_attributes=None)
    with pytest.raises(NoEdgeAttributesError):
        predict(gine(), [bare], CPU)
    with pytest.raises(NoEdgeAttributesError), torch.no_grad():
        gine().dense(to_dense([bare]))
    with pytest.raises(ValueError, match="1 of 2 graphs have edge attributes"):
        to_sparse([bare, random_graph(0)])
    with pytest.raises(ValueError, match="2 edges have attributes; the graph has"):
        replace(random_graph(0), edge_attributes=torch.zeros(2, 3))
