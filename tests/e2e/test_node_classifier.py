"""Registers, explains and verifies a trained node classifier on a real embedded stack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch_geometric.nn import GCNConv, GraphConv

from d4explain import Client, UnreachableError
from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.job_states import GnnState
from d4explain.export.exporter import export
from d4explain.stack.ports import free_port

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("D4_")}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    port = free_port()
    options = ["--data-dir", str(tmp_path / "data"), "--port", str(port)]
    stack = subprocess.Popen([sys.executable, "-m", "d4explain", "up", *options], env=ENVIRONMENT)
    try:
        with Client(f"http://127.0.0.1:{port}") as client:
            wait_until_ready(client, stack)
            yield client
    finally:
        stack.terminate()
        stack.wait(timeout=30)


def wait_until_ready(client: Client, stack: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert stack.poll() is None, f"the stack ended with {stack.returncode}"
        try:
            client.health()
        except UnreachableError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError("the stack was not ready within 120 s")


def tree_with_cycles() -> nx.Graph:
    """A binary tree of 31 nodes with five six-node cycles, whose nodes are class 1."""
    graph = nx.relabel_nodes(nx.balanced_tree(2, 4), lambda node: f"tree {node}")
    nx.set_node_attributes(graph, 0, "label")
    for number in range(5):
        cycle = nx.relabel_nodes(nx.cycle_graph(6), lambda node, c=number: f"cycle {c}.{node}")
        nx.set_node_attributes(cycle, 1, "label")
        graph.update(cycle)
        graph.add_edge(f"cycle {number}.0", f"tree {15 + 3 * number}")
    return graph


def train_gnn(graph: nx.Graph) -> nn.Sequential:
    """A GNN that ends in a convolution, like PyG's examples of node classifiers."""
    torch.manual_seed(0)
    model = nn.Sequential(GraphConv(1, 16), nn.ReLU(), GraphConv(16, 16), nn.ReLU(), GCNConv(16, 2))
    edges = torch.tensor(list(nx.convert_node_labels_to_integers(graph).edges)).T
    edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    labels = torch.tensor([label for _, label in graph.nodes(data="label")])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(200):
        values = torch.ones(len(graph), 1)
        for layer in model:
            inputs = (values,) if isinstance(layer, nn.ReLU) else (values, edge_index)
            values = layer(*inputs)
        optimizer.zero_grad()
        cross_entropy(values, labels).backward()
        optimizer.step()
    assert float((values.argmax(dim=1) == labels).float().mean()) > 0.9
    return model


def node_link(graph: nx.Graph) -> dict[str, Any]:
    """JSON without features; the API sets them to 1."""
    return {
        "nodes": [{"id": node} for node in graph],
        "edges": [{"source": source, "target": target} for source, target in graph.edges],
    }


@pytest.mark.timeout(600)
def test_a_node_is_explained_and_the_answer_holds(client: Client, tmp_path: Path) -> None:
    graph = tree_with_cycles()
    files = export(train_gnn(graph), tmp_path / "exported", ["tree", "cycle"])
    assert json.loads(files.spec.read_text())["task"] == "node"

    gnn = client.register_gnn("cycles", files.spec, files.weights)
    assert gnn.state is GnnState.READY
    dataset = client.create_dataset("one graph", [node_link(graph)])
    before = client.node_predictions(gnn.id, node_link(graph))
    assert before.keys() == set(graph)
    nodes = ["cycle 0.3", "tree 7"]
    assert [before[node].predicted_class for node in nodes] == [1, 0]

    explanation = client.explain_counterfactual(
        gnn.id,
        dataset.id,
        [node_link(graph)],
        nodes=nodes,
        aim="minimal",
        judges="none",
        denoiser={"steps": 20, "hidden": 8, "blocks": 2},
        constraints={"max_ratio": 0.5},
    )
    result = client.result(explanation, timeout=400)
    assert isinstance(result, CounterfactualResult)
    assert [answer.node.id for answer in result.answers if answer.node] == nodes
    assert result.summary.found_count == 2
    for answer in result.answers:
        assert answer.node is not None
        assert answer.node.hops == 4  # three convolutions, and the degrees that GCN reads
        for found in answer.counterfactuals:
            changed = graph.copy()
            for edit in found.edits:
                change = changed.add_edge if edit.action == "add" else changed.remove_edge
                change(edit.source, edit.target)
            after = client.node_predictions(gnn.id, node_link(changed), [answer.node.id])
            prediction = after[answer.node.id]
            assert prediction.predicted_class != before[answer.node.id].predicted_class
            assert prediction.probabilities == pytest.approx(
                found.prediction.probabilities, rel=1e-4
            )
    assert result.mmd is not None
    assert result.mmd.reference_count == len(graph)
    assert b'class="ring"' in client.drawing(explanation.id)
