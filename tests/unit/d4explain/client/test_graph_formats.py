"""Graphs of Python libraries to JSON and back, compared with NetworkX and PyG."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.utils import from_networkx, to_networkx

from d4explain import ConversionError, GraphFormatError
from d4explain.client.graph_formats.answer_graphs import AnswerGraph
from d4explain.client.graph_formats.posted_graphs import graph_json, graph_list, pyg_graphs
from d4explain.contracts.results import (
    Edit,
    EditedMolecule,
    Prediction,
    ResultEdge,
    ResultGraph,
    ResultNode,
    ValenceViolation,
)

PREDICTION = Prediction(predicted_class=1, probabilities=[0.2, 0.8])


@st.composite
def graphs(draw: st.DrawFn) -> nx.Graph:
    size = draw(st.integers(1, 8))
    graph = nx.gnp_random_graph(size, draw(st.floats(0, 1)), seed=draw(st.integers(0, 99)))
    for node in graph:
        graph.nodes[node]["x"] = [float(node), 1.0]
    return graph


def answered(graph: nx.Graph, *edits: Edit) -> AnswerGraph:
    return AnswerGraph(
        ResultGraph(
            nodes=[ResultNode(id=node, x=data["x"]) for node, data in graph.nodes(data=True)],
            edges=[ResultEdge(source=s, target=t) for s, t in graph.edges],
        ),
        PREDICTION,
        edits,
    )


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_networkx_graphs_are_written_as_networkx_does(graph: nx.Graph) -> None:
    expected = nx.node_link_data(graph, edges="edges")
    sent = graph_json(graph)
    assert sent["edges"] == expected["edges"]
    assert sent["nodes"] == expected["nodes"]
    assert nx.utils.graphs_equal(nx.node_link_graph({**sent, "graph": {}}, edges="edges"), graph)


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_answers_come_back_as_the_graph(graph: nx.Graph) -> None:
    answer = answered(graph)
    back = answer.to_networkx()
    assert nx.is_isomorphic(back, graph)
    assert set(map(frozenset, back.edges)) == set(map(frozenset, graph.edges))
    data = answer.to_pyg()
    assert nx.utils.edges_equal(
        to_networkx(data, to_undirected=True).edges, from_sorted(graph).edges
    )
    assert data.x.tolist() == [graph.nodes[node]["x"] for node in graph]


def from_sorted(graph: nx.Graph) -> nx.Graph:
    return nx.Graph(tuple(sorted(edge)) for edge in graph.edges)


@settings(max_examples=30, deadline=None)
@given(graphs())
def test_pyg_graphs_keep_features_and_edges(graph: nx.Graph) -> None:
    data = from_networkx(graph, group_node_attrs=["x"]) if graph.edges else None
    if data is None:
        return
    sent = graph_json(data)
    assert sent["edge_index"] == data.edge_index.tolist()
    assert sent["x"] == [graph.nodes[node]["x"] for node in graph]


def test_vectors_become_columns_and_labels_integers() -> None:
    data = Data(
        x=torch.tensor([1.0, 2.0]),
        edge_index=torch.tensor([[0, 1], [1, 0]]),
        edge_attr=torch.tensor([3.0, 3.0]),
        y=torch.tensor([[1.0]]),
        train_mask=torch.tensor([True, False]),
    )
    assert graph_json(data) == {
        "x": [[1.0], [2.0]],
        "edge_index": [[0, 1], [1, 0]],
        "edge_attr": [[3.0], [3.0]],
        "y": [1],
    }


def test_weights_of_1_change_nothing_and_are_left_out() -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    sent = graph_json(Data(torch.ones(2, 1), edges, edge_weight=torch.ones(2)))
    assert sent == {"x": [[1.0], [1.0]], "edge_index": [[0, 1], [1, 0]]}
    with pytest.raises(GraphFormatError, match="edge_weight, which the API does not read"):
        graph_json(Data(torch.ones(2, 1), edges, edge_weight=torch.tensor([0.5, 0.5])))


def test_a_graph_without_features_has_its_number_of_nodes() -> None:
    data = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=3)
    assert graph_json(data) == {"edge_index": [[0], [1]], "num_nodes": 3}


def test_numpy_values_and_labels_of_networkx_graphs() -> None:
    graph = nx.Graph(label=np.int64(1))
    graph.add_node(np.int64(0), x=np.array([1.0]))
    graph.add_node(1, x=torch.tensor(2.0))
    graph.add_edge(np.int64(0), 1, edge_attr=(0.5,))
    sent = graph_json(graph)
    assert sent["nodes"] == [{"x": [1.0], "id": 0}, {"x": [2.0], "id": 1}]
    assert sent["edges"] == [{"edge_attr": [0.5], "source": 0, "target": 1}]
    assert (sent["label"], sent["directed"]) == (1, False)


def test_a_batch_and_a_generator_are_lists() -> None:
    data = [Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]])) for _ in range(3)]
    assert graph_list(Batch.from_data_list(data)) == graph_list(data)
    assert graph_list(item for item in data) == graph_list(data)
    with pytest.raises(GraphFormatError, match="expected one graph; got 3"):
        graph_json(data)


def test_edge_attributes_and_added_edges_are_converted() -> None:
    edit = Edit(action="add", source="b", target="c", plausibility=None, proposed_by="search")
    nodes = [ResultNode(id=name, x=[1.0]) for name in "abc"]
    edges = [
        ResultEdge(source="a", target="b", edge_attr=[1.0, 0.0]),
        ResultEdge(source="c", target="b", edge_attr=[0.0, 1.0]),
    ]
    answer = AnswerGraph(ResultGraph(nodes=nodes, edges=edges), PREDICTION, (edit,))
    data = answer.to_pyg()
    assert data.edge_index.tolist() == [[0, 2, 1, 1], [1, 1, 0, 2]]
    assert data.edge_attr.tolist() == [[1.0, 0.0], [0.0, 1.0]] * 2
    assert data.node_ids == ["a", "b", "c"]
    drawn = answer.to_networkx()
    assert nx.get_edge_attributes(drawn, "added") == {("a", "b"): False, ("b", "c"): True}
    assert drawn.edges["a", "b"]["edge_attr"] == [1.0, 0.0]


def test_an_invalid_molecule_names_the_atom() -> None:
    violation = ValenceViolation(node=3, element="N", valence=4, allowed=3)
    molecule = EditedMolecule(smiles=None, valid=False, valence_violations=[violation])
    answer: Any = AnswerGraph(ResultGraph(nodes=[], edges=[]), PREDICTION, (), molecule)
    with pytest.raises(ConversionError, match="N at node 3 has 4 bonds, 3 allowed"):
        answer.to_smiles()


def test_a_data_set_of_pyg_is_its_graphs() -> None:
    """Such as TUDataset, which also has the edge_index of all its graphs together."""
    several = [
        Data(x=torch.ones(size, 1), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([size % 2]))
        for size in (2, 3, 4)
    ]
    dataset = InMemoryDataset()
    dataset.data, dataset.slices = dataset.collate(several)
    assert graph_list(dataset) == graph_list(several)
    assert graph_list(dataset[1:]) == graph_list(several[1:])
    assert [graph.num_nodes for graph in pyg_graphs(dataset)] == [2, 3, 4]
