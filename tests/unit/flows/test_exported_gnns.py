"""Typical PyG models are trained, exported, registered and explained over HTTP.

The tests verify the answers with the original PyG module on the edited graphs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
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
from d4explain.export.exporter import export
from tests.unit.d4explain.export.zoo.entries import ZOO, random_graphs, run_original
from tests.unit.d4explain.export.zoo.entries import trained as trained_entry
from tests.unit.flows.api_flow import ApiFlow, assert_refused

torch.set_num_threads(1)
MUTAGENICITY = data_folder() / "Mutagenicity.zip"
MAX_NODES = 30


@pytest.fixture(scope="module")
def flow(deployed: Callable[..., Any]) -> ApiFlow:
    return ApiFlow(deployed(), denoiser={"steps": 8, "hidden": 8, "blocks": 1})


def register(flow: ApiFlow, model: nn.Module, folder: Path, samples: Any) -> dict[str, Any]:
    """Exports the model and registers it; returns the GNN after its probe passed."""
    files = export(model, folder)
    spec = json.loads(files.spec.read_text())
    gnn = flow.register("exported", spec, files.weights.read_bytes(), samples)
    assert gnn["state"] == "ready", gnn["report"]
    return gnn


def explain(flow: ApiFlow, gnn: dict[str, Any], reference: Any, **body: Any) -> list[Any]:
    dataset = flow.create_dataset(reference)
    return flow.answers(gnn=gnn["id"], dataset=dataset["id"], **body)


def posted(data: Data) -> dict[str, Any]:
    return {
        "x": data.x.tolist(),
        "edge_index": data.edge_index.tolist(),
        "y": data.y.tolist(),
    }


def edited(data: Data, edits: Sequence[dict[str, Any]]) -> Data:
    """Applies the edits in both directions; removed edges must exist, added ones must not."""
    pairs = set(map(tuple, data.edge_index.T.tolist()))
    for edit in edits:
        both = {(edit["source"], edit["target"]), (edit["target"], edit["source"])}
        assert both <= pairs if edit["action"] == "remove" else not both & pairs
        pairs ^= both
    return Data(x=data.x, edge_index=torch.tensor(sorted(pairs)).T, y=data.y)


def both_directions(edges: Tensor) -> Tensor:
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


def output_of(model: nn.Module, data: Data) -> Tensor:
    """The output of the PyG model for one graph."""
    batch = Batch.from_data_list([data])
    with torch.no_grad():
        output: Tensor = model(batch.x, batch.edge_index, batch.batch)
    return output[0]


class GinClassifier(nn.Module):
    """A model as in PyG's examples: a GIN, a pool, an MLP."""

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
def test_a_gin_for_mutagenicity_is_explained(flow: ApiFlow, tmp_path: Path) -> None:
    dataset = read_tu(MUTAGENICITY)
    order = torch.randperm(len(dataset.graphs), generator=torch.Generator().manual_seed(0)).tolist()
    molecules = [
        Data(
            x=dataset.graphs[i].features,
            edge_index=both_directions(dataset.graphs[i].edges),
            y=dataset.labels[i].reshape(1),
        )
        for i in order
        if dataset.graphs[i].node_count <= MAX_NODES
    ][:450]
    training, held_out = molecules[:350], molecules[350:]
    torch.manual_seed(0)
    model = GinClassifier(molecules[0].num_features, 2)
    trained(model, training, epochs=6, loss=F.cross_entropy)
    correct = [int(output_of(model, data).argmax()) == int(data.y) for data in held_out]
    accuracy = sum(correct) / len(correct)
    assert accuracy > 0.65

    samples = {"graphs": [posted(data) for data in held_out[:64]], "min_accuracy": 0.6}
    gnn = register(flow, model, tmp_path, samples)
    assert gnn["report"]["samples"]["accuracy"] == sum(correct[:64]) / 64

    explained = held_out[:3]
    answers = explain(
        flow,
        gnn,
        [posted(data) for data in training[:24]],
        graphs=[posted(data) for data in explained],
        preset="fast",
        alternatives=2,
    )
    for data, answer in zip(explained, answers, strict=True):
        check_graph_answer(data, answer, lambda d: output_of(model, d).softmax(dim=0))
    assert sum(answer["found"] for answer in answers) >= 2


def check_graph_answer(data: Data, answer: Any, probabilities: Callable[[Data], Tensor]) -> None:
    before = probabilities(data)
    assert answer["prediction"]["probabilities"] == pytest.approx(before.tolist(), abs=1e-4)
    for found in answer["counterfactuals"]:
        after = probabilities(edited(data, found["edits"]))
        assert int(after.argmax()) == found["prediction"]["predicted_class"] != int(before.argmax())
        assert found["prediction"]["probabilities"] == pytest.approx(after.tolist(), abs=1e-4)


def tree_with_cycles(generator: torch.Generator) -> Data:
    """A binary tree with attached six-node cycles; cycle nodes have class 1, features are noisy."""
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
    return Data(x=x, edge_index=both_directions(torch.tensor(sorted(graph.edges)).T), y=y)


def test_a_gat_node_classifier_is_explained(flow: ApiFlow, tmp_path: Path) -> None:
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
    gnn = register(flow, model, tmp_path, samples)
    assert gnn["spec"]["task"] == "node"
    assert gnn["report"]["samples"]["node_count"] == data.num_nodes
    assert gnn["report"]["samples"]["accuracy"] == pytest.approx(accuracy)

    uncertain = before.max(dim=1).values.argsort()[:3].tolist()
    graph = posted(data)
    answers = explain(
        flow, gnn, [graph], graph=graph, nodes=uncertain, constraints={"max_ratio": 0.5}
    )
    for node, answer in zip(uncertain, answers, strict=True):
        assert answer["node"]["id"] == node
        for found in answer["counterfactuals"]:
            after = probabilities(edited(data, found["edits"]))[node]
            assert int(after.argmax()) != int(before[node].argmax())
            assert found["prediction"]["probabilities"] == pytest.approx(after.tolist(), abs=1e-4)
    assert sum(answer["found"] for answer in answers) >= 2


class ResearchModel(nn.Module):
    """A model as in research code: two layer types, a residual, jumping knowledge, one logit."""

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


def ring_or_tree(number: int) -> Data:
    """Class 1 is a ring with a tail; class 0 is a tree with the same number of nodes."""
    size = 7 + number % 5
    graph = nx.random_labeled_tree(size, seed=number)
    if number % 2:
        graph = nx.cycle_graph(size - 2)
        nx.add_path(graph, [0, size - 2, size - 1])
    edges = both_directions(torch.tensor([sorted(edge) for edge in graph.edges]).T)
    return Data(x=torch.ones(size, 1), edge_index=edges, y=torch.tensor([number % 2]))


def test_a_hand_written_module_is_explained(flow: ApiFlow, tmp_path: Path) -> None:
    graphs = [ring_or_tree(number) for number in range(120)]
    torch.manual_seed(0)
    model = ResearchModel(1, 16)

    def binary(logits: Tensor, labels: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(logits, labels.float())

    trained(model, graphs[:80], epochs=15, loss=binary)
    correct = [int(output_of(model, data) > 0) == int(data.y) for data in graphs[80:]]
    assert sum(correct) / len(correct) > 0.9

    samples = {"graphs": [posted(data) for data in graphs[80:]], "min_accuracy": 0.9}
    gnn = register(flow, model, tmp_path, samples)
    assert (gnn["spec"]["head"], gnn["spec"]["classes"]) == ("binary", 2)
    joined = [layer for layer in gnn["spec"]["layers"] if layer["type"] == "combine"]
    assert [layer["op"] for layer in joined] == ["add", "add", "concat"]
    assert all(len(layer["inputs"]) == 2 for layer in joined)
    explained = graphs[100:103]
    answers = explain(
        flow,
        gnn,
        [posted(data) for data in graphs[:30]],
        graphs=[posted(data) for data in explained],
        constraints={"max_ratio": 0.5},
        preset="fast",
        alternatives=2,
    )

    def probabilities(data: Data) -> Tensor:
        class_1 = output_of(model, data).sigmoid()
        return torch.stack([1 - class_1, class_1])

    for data, answer in zip(explained, answers, strict=True):
        check_graph_answer(data, answer, probabilities)
    assert sum(answer["found"] for answer in answers) >= 2


def test_a_graph_of_layers_with_embeddings_is_registered_and_explained(
    flow: ApiFlow, tmp_path: Path
) -> None:
    entry = next(entry for entry in ZOO if entry.name == "MoleculeGIN")
    graphs = [graph for graph in random_graphs(entry, 36, seed=5) if graph.edge_count > 3]
    model = trained_entry(entry)
    with torch.no_grad():  # both classes occur
        model.graph_pred_linear.bias -= run_original(entry, model, graphs).median(dim=0).values
    documents = [
        {
            "x": graph.features.tolist(),
            "edge_index": both_directions(graph.edges).tolist(),
            "edge_attr": graph.edge_attributes.repeat(2, 1).tolist(),
        }
        for graph in graphs
    ]
    gnn = register(flow, model, tmp_path, None)
    layers = gnn["spec"]["layers"]
    assert layers[0] == {"type": "embedding", "count": 9, "out": 8, "column": 0,
                         "name": "atom_encoder.embedding_list.0"}  # fmt: skip
    assert ["edge_attr"] in [layer.get("inputs") for layer in layers]

    labels = run_original(entry, model, graphs).argmax(dim=1).tolist()
    reference = [{**one, "y": label} for one, label in zip(documents, labels, strict=True)]
    dataset = flow.create_dataset(reference)
    answers = flow.answers(
        gnn=gnn["id"], dataset=dataset["id"], graphs=documents[:4], explainer="search",
        constraints={"max_ratio": 1.0},
    )  # fmt: skip
    for graph, answer in zip(graphs, answers, strict=False):
        expected = run_original(entry, model, [graph]).softmax(dim=1)[0].tolist()
        assert answer["prediction"]["probabilities"] == pytest.approx(expected, abs=1e-4)
    assert any(answer["found"] for answer in answers)

    unknown = {**documents[0], "x": [[9.0, 0, 0, 0], *documents[0]["x"][1:]]}
    refused = flow.post_explanation(gnn=gnn["id"], dataset=dataset["id"], graph=unknown)
    assert_refused(refused, "/graph/x/0", "column 0 must hold whole numbers from 0 to 8")
