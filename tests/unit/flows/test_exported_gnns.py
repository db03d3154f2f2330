"""Models as people have them, trained, exported, registered and explained over HTTP.

What is found is checked by the original PyG module, on the edited graph.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import (
    GAT,
    GIN,
    MLP,
    AttentionalAggregation,
    GCNConv,
    GraphConv,
    JumpingKnowledge,
    global_add_pool,
)

from bench.data.tasks import data_folder
from bench.data.tu import read_tu
from d4explain.export.exporter import Chain, Jump, export

torch.set_num_threads(1)
QUICK = {"steps": 8, "hidden": 8, "blocks": 1}
MUTAGENICITY = data_folder() / "Mutagenicity.zip"
MOST_NODES = 30


@dataclass
class Road:
    """An API with default limits, and a worker that does what is queued."""

    api: Any

    def register(self, model: nn.Module | Chain, folder: Path, samples: Any) -> dict[str, Any]:
        """The ready GNN: its probe has passed, and got the samples right."""
        files = export(model, folder)
        answer = self.api.client.post(
            "/v1/gnns",
            data={"name": "brought", "spec": files.spec.read_text()},
            files={
                "weights": ("w", files.weights.read_bytes()),
                "samples": ("s", json.dumps(samples).encode()),
            },
            headers={"Prefer": "respond-async"},
        )
        assert answer.status_code == 202, answer.text
        self.api.work()
        gnn: dict[str, Any] = self.api.client.get(answer.headers["location"]).json()
        assert gnn["state"] == "ready", gnn["report"]
        return gnn

    def explained(self, gnn: dict[str, Any], reference: Any, **asked: Any) -> list[Any]:
        answer = self.api.client.post(
            "/v1/datasets", json={"name": "reference", "graphs": reference}
        )
        assert answer.status_code == 201, answer.text
        body = {
            "kind": "counterfactual",
            "gnn": gnn["id"],
            "dataset": answer.json()["id"],
            "denoiser": QUICK,
            **asked,
        }
        answer = self.api.client.post("/v1/explanations", json=body)
        assert answer.status_code == 202, answer.text
        self.api.work()
        found = self.api.client.get(answer.headers["location"]).json()
        assert found["state"] == "succeeded", found["job"]["error"]
        answers: list[Any] = found["result"]["answers"]
        return answers


@pytest.fixture(scope="module")
def road(deployed: Callable[..., Any]) -> Road:
    return Road(deployed())


def posted(data: Data) -> dict[str, Any]:
    return {
        "x": data.x.tolist(),
        "edge_index": data.edge_index.tolist(),
        "y": data.y.tolist(),
    }


def edited(data: Data, edits: Sequence[dict[str, Any]]) -> Data:
    """The graph with the edits made in both directions, whose pairs must be as they say."""
    pairs = set(map(tuple, data.edge_index.T.tolist()))
    for edit in edits:
        both = {(edit["source"], edit["target"]), (edit["target"], edit["source"])}
        assert both <= pairs if edit["action"] == "remove" else not both & pairs
        pairs ^= both
    return Data(x=data.x, edge_index=torch.tensor(sorted(pairs)).T, y=data.y)


def both_ways(edges: Tensor) -> Tensor:
    return torch.cat([edges, edges.flip(0)], dim=1)


def trained(model: nn.Module, graphs: Sequence[Data], epochs: int, loss: Any) -> nn.Module:
    loader = DataLoader(
        list(graphs), batch_size=32, shuffle=True, generator=torch.Generator().manual_seed(0)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model.train()
    for _ in range(epochs):
        for batch in loader:
            optimizer.zero_grad()
            loss(model(batch.x, batch.edge_index, batch.batch), batch.y).backward()
            optimizer.step()
    return model.eval()


def says(model: nn.Module, data: Data) -> Tensor:
    """The model's own output for one graph."""
    batch = Batch.from_data_list([data])
    with torch.no_grad():
        output: Tensor = model(batch.x, batch.edge_index, batch.batch)
    return output[0]


class GinClassifier(nn.Module):
    """As PyG's examples write it: a GIN, a pool, an MLP."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.gnn = GIN(features, 32, num_layers=3, norm="batch_norm", dropout=0.1)
        self.head = MLP([32, 32, classes], norm="batch_norm", dropout=0.1)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x = self.gnn(x, edge_index)
        return self.head(global_add_pool(x, batch))


@pytest.mark.skipif(
    not MUTAGENICITY.exists(), reason=f"{MUTAGENICITY} does not exist; set D4_DATA to its folder"
)
def test_a_gin_of_mutagenicity(road: Road, tmp_path: Path) -> None:
    part = read_tu(MUTAGENICITY)
    drawn = torch.randperm(len(part.graphs), generator=torch.Generator().manual_seed(0)).tolist()
    molecules = [
        Data(
            x=part.graphs[i].features,
            edge_index=both_ways(part.graphs[i].edges),
            y=part.labels[i].reshape(1),
        )
        for i in drawn
        if part.graphs[i].node_count <= MOST_NODES
    ][:450]
    training, held_out = molecules[:350], molecules[350:]
    torch.manual_seed(0)
    model = GinClassifier(molecules[0].num_features, 2)
    trained(model, training, epochs=6, loss=F.cross_entropy)
    right = [int(says(model, data).argmax()) == int(data.y) for data in held_out]
    accuracy = sum(right) / len(right)
    assert accuracy > 0.65

    chain = Chain(model, [model.gnn, global_add_pool, model.head])
    samples = {"graphs": [posted(data) for data in held_out[:64]], "min_accuracy": 0.6}
    gnn = road.register(chain, tmp_path, samples)
    assert gnn["report"]["samples"]["accuracy"] == sum(right[:64]) / 64

    asked = held_out[:3]
    answers = road.explained(
        gnn,
        [posted(data) for data in training[:24]],
        graphs=[posted(data) for data in asked],
        preset="fast",
        alternatives=2,
    )
    for data, answer in zip(asked, answers, strict=True):
        check_graph_answer(data, answer, lambda d: says(model, d).softmax(dim=0))
    assert sum(answer["found"] for answer in answers) >= 2


def check_graph_answer(data: Data, answer: Any, probabilities: Callable[[Data], Tensor]) -> None:
    before = probabilities(data)
    assert answer["prediction"]["probabilities"] == pytest.approx(before.tolist(), abs=1e-4)
    for found in answer["counterfactuals"]:
        after = probabilities(edited(data, found["edits"]))
        assert int(after.argmax()) == found["prediction"]["predicted_class"] != int(before.argmax())
        assert found["prediction"]["probabilities"] == pytest.approx(after.tolist(), abs=1e-4)


def tree_with_cycles(generator: torch.Generator) -> Data:
    """A binary tree with six-node cycles, whose nodes are class 1; features are noisy hints."""
    graph = nx.balanced_tree(2, 4)
    labels = [0] * len(graph)
    for number in range(6):
        start = len(graph)
        nx.add_cycle(graph, range(start, start + 6))
        graph.add_edge(start, 15 + 2 * number)
        labels += [1] * 6
    y = torch.tensor(labels)
    degrees = torch.tensor([degree for _, degree in sorted(graph.degree)])
    hint = 2 * y - 1 + 1.5 * torch.randn(len(y), generator=generator)
    x = torch.stack([hint, degrees.float(), torch.ones(len(y))], dim=1)
    return Data(x=x, edge_index=both_ways(torch.tensor(sorted(graph.edges)).T), y=y)


def test_a_gat_that_classifies_nodes(road: Road, tmp_path: Path) -> None:
    data = tree_with_cycles(torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    model = GAT(3, 16, num_layers=2, out_channels=2, heads=2, dropout=0.2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(100):
        optimizer.zero_grad()
        F.cross_entropy(model(data.x, data.edge_index), data.y).backward()
        optimizer.step()
    model.eval()

    def probabilities(graph: Data) -> Tensor:
        with torch.no_grad():
            return model(graph.x, graph.edge_index).softmax(dim=1)

    before = probabilities(data)
    accuracy = float((before.argmax(dim=1) == data.y).float().mean())
    assert accuracy > 0.85

    samples = {"graphs": [posted(data)], "min_accuracy": 0.85}
    gnn = road.register(model, tmp_path, samples)
    assert gnn["spec"]["task"] == "node"
    assert gnn["report"]["samples"]["node_count"] == data.num_nodes
    assert gnn["report"]["samples"]["accuracy"] == pytest.approx(accuracy)

    unsure = before.max(dim=1).values.argsort()[:3].tolist()
    graph = posted(data)
    answers = road.explained(
        gnn, [graph], graph=graph, nodes=unsure, constraints={"max_ratio": 0.5}
    )
    for node, answer in zip(unsure, answers, strict=True):
        assert answer["node"]["id"] == node
        for found in answer["counterfactuals"]:
            after = probabilities(edited(data, found["edits"]))[node]
            assert int(after.argmax()) != int(before[node].argmax())
            assert found["prediction"]["probabilities"] == pytest.approx(after.tolist(), abs=1e-4)
    assert sum(answer["found"] for answer in answers) >= 2


class HandWritten(nn.Module):
    """What a research repository has: two kinds of layers, a residual, jumps, one logit."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.encoder = nn.Linear(features, hidden)
        self.convs = nn.ModuleList([GraphConv(hidden, hidden), GCNConv(hidden, hidden)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(hidden), nn.BatchNorm1d(hidden)])
        self.jump = JumpingKnowledge("cat")
        self.pool = AttentionalAggregation(nn.Linear(2 * hidden, 1))
        self.head = nn.Sequential(
            nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden, 1)
        )

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x = self.encoder(x)
        layers = []
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + F.dropout(F.elu(norm(conv(x, edge_index))), 0.1, self.training)
            layers.append(x)
        return self.head(self.pool(self.jump(layers), batch)).squeeze(1)

    def chain(self) -> Chain:
        parts: list[Any] = [self.encoder]
        for conv, norm in zip(self.convs, self.norms, strict=True):
            parts += ["keep", conv, norm, F.elu, "add"]
        return Chain(self, [*parts, "keep", Jump(self.jump, last=2), self.pool, self.head])


def ring_or_tree(number: int) -> Data:
    """Class 1 is a ring with a tail, class 0 a tree of as many nodes."""
    size = 7 + number % 5
    graph = nx.random_labeled_tree(size, seed=number)
    if number % 2:
        graph = nx.cycle_graph(size - 2)
        nx.add_path(graph, [0, size - 2, size - 1])
    edges = both_ways(torch.tensor([sorted(edge) for edge in graph.edges]).T)
    return Data(x=torch.ones(size, 1), edge_index=edges, y=torch.tensor([number % 2]))


def test_a_hand_written_module(road: Road, tmp_path: Path) -> None:
    graphs = [ring_or_tree(number) for number in range(120)]
    torch.manual_seed(0)
    model = HandWritten(1, 16)

    def binary(logits: Tensor, labels: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(logits, labels.float())

    trained(model, graphs[:80], epochs=15, loss=binary)
    right = [int(says(model, data) > 0) == int(data.y) for data in graphs[80:]]
    assert sum(right) / len(right) > 0.9

    samples = {"graphs": [posted(data) for data in graphs[80:]], "min_accuracy": 0.9}
    gnn = road.register(model.chain(), tmp_path, samples)
    assert (gnn["spec"]["head"], gnn["spec"]["classes"]) == ("binary", 2)
    asked = graphs[100:103]
    answers = road.explained(
        gnn,
        [posted(data) for data in graphs[:30]],
        graphs=[posted(data) for data in asked],
        constraints={"max_ratio": 0.5},
        preset="fast",
        alternatives=2,
    )

    def probabilities(data: Data) -> Tensor:
        second = says(model, data).sigmoid()
        return torch.stack([1 - second, second])

    for data, answer in zip(asked, answers, strict=True):
        check_graph_answer(data, answer, probabilities)
    assert sum(answer["found"] for answer in answers) >= 2
