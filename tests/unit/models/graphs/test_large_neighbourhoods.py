"""A node of a graph by rows is explained by what the whole graph says about it."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from d4explain.gnn.graphs import Graph, to_sparse
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import (
    ActivationLayer,
    GatLayer,
    GcnLayer,
    GinLayer,
    GnnSpec,
    Layer,
    LinearLayer,
    SageLayer,
)
from models.errors import UnknownTargetError
from models.graphs.csr_graph import CsrGraph
from models.graphs.edits import EditRules, EditSpace
from models.graphs.large_neighbourhoods import surroundings
from models.graphs.neighbourhoods import edited_whole, instance

torch.set_num_threads(1)
convolutions = st.sampled_from([GinLayer(5, 6), SageLayer(5), GcnLayer(5), GatLayer(3, heads=2)])


def rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(graph: nx.Graph, features: torch.Tensor) -> CsrGraph:
    """By NetworkX's own neighbours, not by the code that the store packs with."""
    lists = [sorted(graph[node]) for node in range(graph.number_of_nodes())]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in lists])])
    return CsrGraph(features.numpy(), starts, np.array([n for row in lists for n in row], np.int32))


def whole_of(graph: nx.Graph, features: torch.Tensor) -> Graph:
    edges = torch.tensor(sorted(tuple(sorted(edge)) for edge in graph.edges)).view(-1, 2)
    return Graph(features, edges.T.contiguous())


@st.composite
def large(draw: st.DrawFn) -> tuple[nx.Graph, torch.Tensor]:
    """Trees, scale-free graphs and stars joined to them: with hubs and without."""
    seed = draw(st.integers(0, 1000))
    kind = draw(st.sampled_from(["tree", "ba", "star"]))
    nodes = draw(st.integers(40, 160))
    if kind == "tree":
        graph = nx.random_labeled_tree(nodes, seed=seed)
    else:
        graph = nx.barabasi_albert_graph(nodes, 2, seed=seed)
    if kind == "star":
        graph.add_edges_from((0, leaf) for leaf in range(nodes, 2 * nodes))
    features = torch.randn(graph.number_of_nodes(), 4, generator=rng(seed), dtype=torch.float64)
    return graph, features


def random_gnn(convs: list[Layer], seed: int) -> Gnn:
    layers = [layer for conv in convs for layer in (conv, ActivationLayer("tanh"))]
    gnn = Gnn(GnnSpec(4, 3, (*layers, LinearLayer(3)))).double().eval()
    with torch.no_grad():
        for parameter in gnn.parameters():
            parameter.normal_(generator=rng(seed))
    return gnn


@settings(max_examples=25, deadline=None)
@given(made=large(), radius=st.integers(0, 4), data=st.data())
def test_a_walk_by_rows_reaches_what_networkx_reaches(
    made: tuple[nx.Graph, torch.Tensor], radius: int, data: st.DataObject
) -> None:
    graph, features = made
    node = data.draw(st.integers(0, graph.number_of_nodes() - 1))
    most = data.draw(st.integers(1, 400))
    ball = rows(graph, features).ball(node, radius, most)
    truth = nx.single_source_shortest_path_length(graph, node, cutoff=radius)
    found = dict(zip(ball.nodes.tolist(), ball.hops.tolist(), strict=True))
    assert len(found) == len(ball.nodes) == min(len(truth), most)
    assert found.items() <= truth.items()
    assert ball.complete == (len(truth) <= most)
    # near ones before far ones
    assert max(found.values()) <= sorted(truth.values())[len(found) - 1]


@settings(max_examples=25, deadline=None)
@given(made=large(), layers=st.integers(0, 2), more=st.integers(0, 1), data=st.data())
def test_a_complete_part_is_the_instance_of_the_whole_graph(
    made: tuple[nx.Graph, torch.Tensor], layers: int, more: int, data: st.DataObject
) -> None:
    graph, features = made
    node = data.draw(st.integers(0, graph.number_of_nodes() - 1))
    around = surroundings(rows(graph, features), node, layers, layers + more, max_nodes=1000)
    truth = instance(whole_of(graph, features), node, layers, receptive_field=layers + more)
    assert around.complete
    assert around.exact
    assert around.part.nodes.tolist() == truth.nodes.tolist()
    assert around.part.hops.tolist() == truth.hops.tolist()
    assert around.part.rim == truth.rim
    assert torch.equal(around.part.graph.edges, truth.graph.edges)
    assert torch.equal(around.part.graph.features, truth.graph.features)


@settings(max_examples=25, deadline=None)
@given(
    made=large(),
    convs=st.lists(convolutions, min_size=1, max_size=2),
    max_nodes=st.integers(2, 60),
    seed=st.integers(0, 1000),
)
def test_logits_on_the_surroundings_are_those_of_the_whole_edited_graph(
    made: tuple[nx.Graph, torch.Tensor], convs: list[Layer], max_nodes: int, seed: int
) -> None:
    graph, features = made
    gnn = random_gnn(convs, seed)
    node = seed % graph.number_of_nodes()
    around = surroundings(
        rows(graph, features),
        node,
        gnn.spec.convolutions,
        gnn.spec.receptive_field,
        max_nodes=max_nodes,
    )
    assert around.exact
    assert around.part.graph.node_count <= max_nodes
    space = EditSpace.of(around.part.graph, around.part.rules(EditRules(max_ratio=10.0)))
    order = torch.randperm(space.count, generator=rng(seed)).tolist()
    removed = [pair for pair in order if space.present[pair]][:4]
    added = [pair for pair in order if not space.present[pair]][:4]
    edited = space.apply(tuple(sorted([*removed, *added])))
    with torch.no_grad():
        local = gnn(to_sparse([edited_whole(around.seen, around.within, edited)]))
        truth = gnn(to_sparse([edited_whole(whole_of(graph, features), around.part, edited)]))
    assert torch.allclose(local, truth, rtol=1e-9, atol=1e-9)


def test_the_surroundings_of_a_hub_are_marked_as_incomplete() -> None:
    star = nx.star_graph(300)
    features = torch.ones(301, 1)
    around = surroundings(rows(star, features), 7, 2, 2, max_nodes=10, verified_nodes=50)
    assert not around.exact
    assert not around.complete
    assert around.seen.node_count == 50
    assert around.part.nodes.tolist()[:2] == [7, 0]
    within = surroundings(rows(star, features), 7, 2, 2, max_nodes=10, verified_nodes=301)
    assert within.exact
    assert not within.complete


def test_a_hub_is_read_no_farther_than_is_kept() -> None:
    """A row of ten million entries that cannot be read: only its beginning is."""

    class Guarded(np.ndarray):
        def __getitem__(self, key: object) -> object:
            found = super().__getitem__(key)  # type: ignore[index]
            assert np.size(found) < 50_000 or isinstance(key, slice)
            return found

    leaves = 1_000_000
    row = np.concatenate([np.arange(1, leaves + 1), np.zeros(leaves)]).astype(np.int32)
    starts = np.concatenate([[0], np.arange(leaves, 2 * leaves + 1)])
    graph = CsrGraph(np.ones((leaves + 1, 1), np.float32), starts, row.view(Guarded))
    around = surroundings(graph, 5, 2, 2, max_nodes=20, verified_nodes=1000)
    assert around.part.graph.node_count == 20
    assert around.part.graph.edge_count == 19
    assert not around.exact


@pytest.mark.parametrize("node", [-1, 5])
def test_a_node_that_is_not_there_is_refused(node: int) -> None:
    graph = rows(nx.path_graph(5), torch.ones(5, 1))
    with pytest.raises(UnknownTargetError):
        surroundings(graph, node, 1, 1, max_nodes=5)
