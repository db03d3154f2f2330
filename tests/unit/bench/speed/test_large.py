"""Input graphs of the benchmark of large graphs."""

from __future__ import annotations

import networkx as nx
import pytest
import torch

from bench.speed.large.inputs import (
    NODE_SPEC,
    SHAPES,
    chain_near_boundary,
    graph_with_fixed_neighbourhood,
)
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import GinLayer, GnnSpec, LinearLayer, PoolLayer
from models.graphs.csr_graph import CsrGraph
from models.graphs.large_neighbourhoods import Surroundings, surroundings

torch.set_num_threads(1)
CPU = torch.device("cpu")


def surroundings_in(nodes: int) -> Surroundings:
    graph = graph_with_fixed_neighbourhood(nodes, 0)
    assert abs(graph.edge_count / (5 * nodes) - 1) < 0.05
    rows = CsrGraph(graph.x, graph.starts, graph.neighbours)
    return surroundings(rows, 0, NODE_SPEC.convolutions, NODE_SPEC.receptive_field, max_nodes=128)


def test_neighbourhood_is_equal_at_every_size() -> None:
    small, large = surroundings_in(2000), surroundings_in(20_000)
    assert small.complete
    assert small.part.rim == large.part.rim == NODE_SPEC.receptive_field
    assert torch.equal(small.part.graph.edges, large.part.graph.edges)
    assert torch.equal(small.part.graph.features, large.part.graph.features)


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_are_connected_and_one_has_a_hub(shape: str) -> None:
    graph = SHAPES[shape](400, 0)
    network = nx.Graph(graph.edges.T.tolist())
    assert network.number_of_nodes() == graph.node_count == 400
    assert nx.is_connected(network)
    assert (max(degree for _, degree in network.degree) > 200) == (shape == "star and BA")


def test_chain_is_near_the_decision_boundary() -> None:
    """The GNN compares edges with nodes: paths are one class, dense pieces the other."""
    gnn = Gnn(GnnSpec(1, 2, (GinLayer(1, 1), PoolLayer("mean"), LinearLayer(2)))).eval()
    weights = {
        "layers.0.conv.eps": torch.zeros(1),
        "layers.0.conv.nn.0.weight": torch.ones(1, 1),
        "layers.0.conv.nn.0.bias": torch.zeros(1),
        "layers.0.conv.nn.2.weight": torch.ones(1, 1),
        "layers.0.conv.nn.2.bias": torch.zeros(1),
        "layers.2.linear.weight": torch.tensor([[0.0], [1.0]]),
        "layers.2.linear.bias": torch.tensor([0.0, -4.0]),  # one more than the mean degree
    }
    gnn.load_state_dict(weights)
    pieces = [nx.path_graph(6), nx.complete_graph(6)] * 5
    graphs = [Graph(torch.ones(6, 1), torch.tensor(list(piece.edges)).T) for piece in pieces]
    chain = chain_near_boundary(gnn, graphs, 300)
    assert nx.is_connected(nx.Graph(chain.edges.T.tolist()))
    assert 300 <= chain.node_count <= 306
    of_chain, of_path = predict(gnn, [chain, graphs[0]], CPU)
    assert of_chain.argmax() == of_path.argmax()
    assert of_chain.max() < of_path.max() - 0.2
