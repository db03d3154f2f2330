"""A GNN that reads edge attributes is trained in PyG and explained over HTTP.

The tests verify the answers with the PyG model.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GATv2Conv, GINEConv, global_add_pool

from d4explain.export.exporter import export
from tests.unit.flows.api_flow import QUICK_TRAINING, ApiFlow, assert_refused

torch.set_num_threads(1)
KINDS = ([1.0, 0.0], [0.0, 1.0])  # weak and strong edges


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = GINEConv(
            nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 8)), edge_dim=2
        )
        inner = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU())
        self.second = GINEConv(inner, train_eps=True, edge_dim=2)
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor) -> Tensor:
        x = F.relu(self.first(x, edge_index, edge_attr))
        x = self.second(x, edge_index, edge_attr)
        return self.head(global_add_pool(x, batch))


def drawn_graph(rng: torch.Generator) -> dict[str, Any]:
    """A tree with one more edge; class 1 if most of its edges are strong."""
    nodes = int(torch.randint(5, 9, (), generator=rng))
    pairs = {(int(torch.randint(n, (), generator=rng)), n) for n in range(1, nodes)}
    pairs.add((0, nodes - 1))
    types = torch.randint(3, (nodes,), generator=rng)
    bias = float(torch.rand((), generator=rng))
    kinds = (torch.rand(len(pairs), generator=rng) < bias).long().tolist()
    return {
        "nodes": [
            {"id": f"n{n}", "x": row} for n, row in enumerate(F.one_hot(types, 3).float().tolist())
        ],
        "edges": [
            {"source": f"n{source}", "target": f"n{target}", "edge_attr": KINDS[kind]}
            for (source, target), kind in zip(sorted(pairs), kinds, strict=True)
        ],
        "label": int(2 * sum(kinds) > len(kinds)),
    }


def data_of(graph: dict[str, Any]) -> Data:
    """Converts a posted graph, or a graph of an answer, to PyG."""
    position = {node["id"]: i for i, node in enumerate(graph["nodes"])}
    pairs = [(position[edge["source"]], position[edge["target"]]) for edge in graph["edges"]]
    attributes = torch.tensor([edge["edge_attr"] for edge in graph["edges"]]).view(-1, 2)
    index = torch.tensor([*pairs, *((b, a) for a, b in pairs)], dtype=torch.int64).view(-1, 2).T
    x = torch.tensor([node["x"] for node in graph["nodes"]])
    return Data(x=x, edge_index=index, edge_attr=attributes.repeat(2, 1), y=graph.get("label"))


def train(graphs: list[dict[str, Any]]) -> Net:
    torch.manual_seed(0)
    net = Net().train()
    batch = Batch.from_data_list([data_of(graph) for graph in graphs])
    optimiser = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(150):
        optimiser.zero_grad()
        logits = net(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
        F.cross_entropy(logits, batch.y).backward()
        optimiser.step()
    return net.eval()


def probabilities(net: Net, graph: dict[str, Any]) -> Tensor:
    batch = Batch.from_data_list([data_of(graph)])
    with torch.no_grad():
        return net(batch.x, batch.edge_index, batch.edge_attr, batch.batch)[0].softmax(dim=0)


@dataclass(frozen=True)
class Trained:
    """A GNN trained in PyG and the graphs that it was trained on."""

    net: Net
    graphs: list[dict[str, Any]]

    @property
    def reference(self) -> list[dict[str, Any]]:
        return self.graphs[:5]


@pytest.fixture(scope="module")
def trained() -> Trained:
    rng = torch.Generator().manual_seed(1)
    graphs = [drawn_graph(rng) for _ in range(80)]
    return Trained(train(graphs), graphs)


@pytest.fixture(scope="module")
def flow(shared_api: Any, trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> ApiFlow:
    """The trained GNN is registered, and five of its graphs are the reference set."""
    flow = ApiFlow(shared_api)
    net = trained.net
    samples = {"graphs": trained.graphs[:4], "min_accuracy": 1.0}
    flow.gnn = register(flow, net, tmp_path_factory.mktemp("exported"), samples)
    dataset = flow.create_dataset(trained.reference)
    assert dataset["edge_features"] == 2
    flow.dataset = dataset["id"]
    return flow


def register(flow: ApiFlow, model: nn.Module, folder: Path, samples: Any = None) -> str:
    """Exports the GNN and registers it; returns its id after the probe passed."""
    files = export(model, folder)
    spec = json.loads(files.spec.read_text())
    gnn = flow.register("edge attributes", spec, files.weights.read_bytes(), samples)
    assert gnn["state"] == "ready", gnn
    return str(gnn["id"])


def edges_of(graph: dict[str, Any]) -> dict[frozenset[str], list[float]]:
    return {frozenset((e["source"], e["target"])): e["edge_attr"] for e in graph["edges"]}


def usual_attributes(
    reference: list[dict[str, Any]], one: list[float], other: list[float]
) -> set[tuple]:
    """The most frequent edge attributes between nodes with these features; several in a tie."""
    counts: Counter[tuple[float, ...]] = Counter()
    overall: Counter[tuple[float, ...]] = Counter()
    for graph in reference:
        x = {node["id"]: node["x"] for node in graph["nodes"]}
        for edge in graph["edges"]:
            overall[tuple(edge["edge_attr"])] += 1
            if sorted([x[edge["source"]], x[edge["target"]]]) == sorted([one, other]):
                counts[tuple(edge["edge_attr"])] += 1
    counts = counts or overall
    return {row for row, count in counts.items() if count == max(counts.values())}


def test_the_gnn_reads_edge_attributes(flow: ApiFlow, trained: Trained) -> None:
    """The same graph with other attributes gets another class."""
    graph = trained.graphs[10]
    flipped = json.loads(json.dumps(graph))
    for edge in flipped["edges"]:
        edge["edge_attr"] = KINDS[1 - graph["label"]]
    without_edges = {"nodes": graph["nodes"], "edges": []}
    found = [*flow.predict(graphs=[graph, flipped]), *flow.predict(graph=without_edges)]
    labels = [one["predicted_class"] for one in found]
    assert labels[:2] == [graph["label"], 1 - graph["label"]]
    for one, posted in zip(found, (graph, flipped, without_edges), strict=True):
        expected = probabilities(trained.net, posted).tolist()
        assert one["probabilities"] == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_counterfactuals_flip_the_pyg_model_with_the_listed_attributes(
    flow: ApiFlow, trained: Trained
) -> None:
    posted = trained.graphs[10:14]
    found = flow.explain(graphs=posted, preset="thorough", constraints={"max_ratio": 1.0})
    flow.assert_what_if_agrees(found)
    answers = found["result"]["answers"]
    assert all(answer["found"] for answer in answers)
    actions: Counter[str] = Counter()
    for graph, answer in zip(posted, answers, strict=True):
        assert edges_of(answer["graph"]) == edges_of(graph)
        x = {node["id"]: node["x"] for node in graph["nodes"]}
        for one in answer["counterfactuals"]:
            expected = edges_of(graph)
            for edit in one["edits"]:
                actions[edit["action"]] += 1
                pair = frozenset((edit["source"], edit["target"]))
                if edit["action"] == "remove":
                    assert expected.pop(pair) == edit["edge_attr"]
                else:
                    allowed = usual_attributes(
                        trained.reference, x[edit["source"]], x[edit["target"]]
                    )
                    assert tuple(edit["edge_attr"]) in allowed
                    expected[pair] = edit["edge_attr"]
            assert edges_of(one["graph"]) == expected
            by_pyg = probabilities(trained.net, one["graph"])
            assert one["prediction"]["probabilities"] == pytest.approx(
                by_pyg.tolist(), rel=1e-4, abs=1e-6
            )
            assert int(by_pyg.argmax()) != int(probabilities(trained.net, graph).argmax())
    assert actions["add"] > 0
    assert actions["remove"] > 0


def test_exported_answers_contain_the_attributes_and_can_be_posted_again(
    flow: ApiFlow, trained: Trained
) -> None:
    found = flow.explain(
        graph=trained.graphs[10], preset="thorough", constraints={"max_ratio": 1.0}
    )
    best = found["result"]["answers"][0]["counterfactuals"][0]
    as_pyg = flow.client.get(f"/v1/explanations/{found['id']}?format=pyg").json()
    again = flow.predict(graphs=[best["graph"], as_pyg])
    for one in again:
        assert one["probabilities"] == pytest.approx(best["prediction"]["probabilities"], rel=1e-5)
    cytoscape = flow.client.get(f"/v1/explanations/{found['id']}?format=cytoscape").json()
    read = nx.cytoscape_graph(cytoscape)
    carried = {frozenset(ends): data["edge_attr"] for *ends, data in read.edges(data=True)}
    assert carried == edges_of(best["graph"])
    graphml = nx.parse_graphml(
        flow.client.get(f"/v1/explanations/{found['id']}?format=graphml").text
    )
    carried = {
        frozenset(ends): [data["e0"], data["e1"]] for *ends, data in graphml.edges(data=True)
    }
    assert carried == edges_of(best["graph"])


def test_class_examples_have_edge_attributes(flow: ApiFlow, trained: Trained) -> None:
    for target in (0, 1):
        found = flow.explain(
            kind="class",
            target_class=target,
            example_count=2,
            candidates=4,
            steps=4,
            node_count=5,
            explainer="d4-paper",  # which returns all its graphs, whatever their evidence
            denoiser={"recipe": "default", **QUICK_TRAINING},
        )
        assert found["result"]["examples"]
        for example in found["result"]["examples"]:
            by_pyg = probabilities(trained.net, example["graph"])
            assert example["confidence_alone"] == pytest.approx(float(by_pyg[target]), rel=1e-4)


class NodeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = GATv2Conv(3, 4, heads=2, edge_dim=2)
        self.second = GINEConv(
            nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)), edge_dim=2
        )

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        return self.second(F.elu(self.first(x, edge_index, edge_attr)), edge_index, edge_attr)


def test_nodes_are_explained_with_edge_attributes(
    flow: ApiFlow, trained: Trained, tmp_path: Path
) -> None:
    torch.manual_seed(3)
    # Two joined graphs: no node reaches all others within the hops of the GNN.
    nodes, edges = [], []
    for number, graph in enumerate(trained.graphs[:2]):
        nodes += [{**node, "id": f"{number}{node['id']}"} for node in graph["nodes"]]
        edges += [
            {**edge, "source": f"{number}{edge['source']}", "target": f"{number}{edge['target']}"}
            for edge in graph["edges"]
        ]
    edges.append({"source": "0n1", "target": "1n1", "edge_attr": KINDS[1]})
    whole = {"nodes": nodes, "edges": edges}
    net = NodeNet().eval()
    data = data_of(whole)
    with torch.no_grad():  # half of the nodes get each class, near the decision boundary
        logits = net(data.x, data.edge_index, data.edge_attr)
        net.second.nn[2].bias[1] += (logits[:, 0] - logits[:, 1]).median()
    gnn = register(flow, net, tmp_path)
    names = ["0n0", "0n2", "1n3"]
    found = flow.explain(
        gnn=gnn,
        graph=whole,
        nodes=names,
        preset="thorough",
        constraints={"max_ratio": 1.0},
    )
    verified = 0
    for name, answer in zip(names, found["result"]["answers"], strict=True):
        position = [node["id"] for node in nodes].index(name)
        part = edges_of(answer["graph"])
        assert part.items() <= edges_of(whole).items()
        for one in answer["counterfactuals"]:
            after = edges_of(whole)
            for edit in one["edits"]:
                pair = frozenset((edit["source"], edit["target"]))
                if edit["action"] == "remove":
                    assert after.pop(pair) == edit["edge_attr"]
                else:
                    after[pair] = edit["edge_attr"]
            edited = [
                {"source": min(pair), "target": max(pair), "edge_attr": row}
                for pair, row in after.items()
            ]
            data = data_of({"nodes": nodes, "edges": edited})
            with torch.no_grad():
                by_pyg = net(data.x, data.edge_index, data.edge_attr)[position].softmax(dim=0)
            assert one["prediction"]["probabilities"] == pytest.approx(
                by_pyg.tolist(), rel=1e-4, abs=1e-6
            )
            verified += 1
    assert verified > 0


def test_missing_and_invalid_attributes_are_refused(flow: ApiFlow, trained: Trained) -> None:
    bare = json.loads(json.dumps(trained.graphs[10]))
    for edge in bare["edges"]:
        del edge["edge_attr"]
    assert_refused(
        flow.post_explanation(graph=bare),
        "/graph/edges/0/edge_attr",
        f"{flow.gnn} takes 2 attributes",
    )
    wide = json.loads(json.dumps(trained.graphs[10]))
    wide["edges"][1]["edge_attr"] = [1.0, 0.0, 0.0]
    assert_refused(
        flow.post_explanation(graphs=[wide]), "/graphs/0/edges/1/edge_attr", "has 3 attributes"
    )
    dataset = flow.create_dataset([bare])
    assert dataset["edge_features"] == 0
    answer = flow.post_explanation(graph=trained.graphs[10], dataset=dataset["id"])
    assert_refused(answer, "/dataset", "have no attributes")
