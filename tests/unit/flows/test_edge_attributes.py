"""A GNN that reads edge attributes, from its training in PyG to explanations over HTTP.

The worker runs in this process. What the answers are held to is the PyG model itself.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GATv2Conv, GINEConv, global_add_pool

from d4explain.contracts.job_states import JobState
from d4explain.export.exporter import Chain, export
from store import jobs
from worker.execution.runner import Runner
from worker.handlers import HANDLERS
from worker.loading.library import Library

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
    """A tree with one edge more; its class says whether most of its edges are strong."""
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
    """As PyG would have it; of a posted graph or of one in an answer."""
    place = {node["id"]: i for i, node in enumerate(graph["nodes"])}
    pairs = [(place[edge["source"]], place[edge["target"]]) for edge in graph["edges"]]
    attributes = torch.tensor([edge["edge_attr"] for edge in graph["edges"]]).view(-1, 2)
    index = torch.tensor([*pairs, *((b, a) for a, b in pairs)], dtype=torch.int64).view(-1, 2).T
    x = torch.tensor([node["x"] for node in graph["nodes"]])
    return Data(x=x, edge_index=index, edge_attr=attributes.repeat(2, 1), y=graph.get("label"))


def trained(graphs: list[dict[str, Any]]) -> Net:
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


@dataclass
class Road:
    api: Any
    runner: Runner
    net: Net
    graphs: list[dict[str, Any]]
    gnn: str = ""
    dataset: str = ""
    reference: list[dict[str, Any]] = field(default_factory=list)

    def work(self) -> None:
        while True:
            with self.api.store.database.reading() as session:
                queued = jobs.page(session, state=JobState.QUEUED).items
            ready = [job.id for job in queued if job.waiting_for is None]
            if not ready:
                return
            self.runner.run(ready[-1])

    def post(self, **body: Any) -> Any:
        known = {
            "kind": "counterfactual",
            "gnn": self.gnn,
            "dataset": self.dataset,
            "denoiser": {"steps": 8, "hidden": 4, "blocks": 1},
        }
        return self.api.client.post("/v1/explanations", json={**known, **body})

    def explained(self, **body: Any) -> dict[str, Any]:
        answer = self.post(**body)
        assert answer.status_code == 202, answer.text
        self.work()
        found: dict[str, Any] = self.api.client.get(answer.headers["location"]).json()
        assert found["state"] == "succeeded", found["job"]["error"]
        return found

    def predicted(self, **body: Any) -> Any:
        answer = self.api.client.post(
            f"/v1/gnns/{self.gnn}/predictions", json=body, headers={"Prefer": "respond-async"}
        )
        assert answer.status_code == 202, answer.text
        self.work()
        return self.api.client.get(answer.headers["location"]).json()["result"]["predictions"]


@pytest.fixture(scope="module")
def road(shared_api: Any, tmp_path_factory: pytest.TempPathFactory) -> Road:
    rng = torch.Generator().manual_seed(1)
    graphs = [drawn_graph(rng) for _ in range(80)]
    net = trained(graphs)
    folder: Path = tmp_path_factory.mktemp("exported")
    export(Chain(net, [net.first, F.relu, net.second, global_add_pool, net.head]), folder)
    client = shared_api.client
    answer = client.post(
        "/v1/gnns",
        data={"name": "strong", "spec": (folder / "spec.json").read_text()},
        files={
            "weights": ("w", (folder / "weights.safetensors").read_bytes()),
            "samples": ("s", json.dumps({"graphs": graphs[:4], "min_accuracy": 1.0}).encode()),
        },
        headers={"Prefer": "respond-async"},
    )
    assert answer.status_code == 202, answer.text
    library = Library(shared_api.store.artifacts, torch.device("cpu"))
    road = Road(shared_api, Runner(shared_api.store, library, HANDLERS, "test"), net, graphs)
    road.work()
    gnn = client.get(answer.headers["location"]).json()
    assert gnn["state"] == "ready", gnn
    road.gnn, road.reference = gnn["id"], graphs[:5]
    answer = client.post("/v1/datasets", json={"name": "some", "graphs": road.reference})
    assert answer.status_code == 201, answer.text
    assert answer.json()["edge_features"] == 2
    road.dataset = answer.json()["id"]
    return road


def refused(answer: Any, pointer: str, words: str) -> None:
    assert answer.status_code == 422, answer.text
    error = answer.json()["errors"][0]
    assert error["pointer"] == pointer
    assert words in error["detail"]


def edges_of(graph: dict[str, Any]) -> dict[frozenset[str], list[float]]:
    return {frozenset((e["source"], e["target"])): e["edge_attr"] for e in graph["edges"]}


def usual(reference: list[dict[str, Any]], one: list[float], other: list[float]) -> set[tuple]:
    """The most frequent attributes between nodes with such features, several if in doubt."""
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


def test_the_gnn_reads_edge_attributes(road: Road) -> None:
    """The same graph with other attributes gets another class."""
    graph = road.graphs[10]
    flipped = json.loads(json.dumps(graph))
    for edge in flipped["edges"]:
        edge["edge_attr"] = KINDS[1 - graph["label"]]
    lone = {"nodes": graph["nodes"], "edges": []}
    found = [*road.predicted(graphs=[graph, flipped]), *road.predicted(graph=lone)]
    labels = [one["predicted_class"] for one in found]
    assert labels[:2] == [graph["label"], 1 - graph["label"]]
    for one, posted in zip(found, (graph, flipped, lone), strict=True):
        expected = probabilities(road.net, posted).tolist()
        assert one["probabilities"] == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_counterfactuals_hold_in_pyg_with_the_attributes_they_list(road: Road) -> None:
    posted = road.graphs[10:14]
    found = road.explained(graphs=posted, preset="thorough", constraints={"max_ratio": 1.0})
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
                    allowed = usual(road.reference, x[edit["source"]], x[edit["target"]])
                    assert tuple(edit["edge_attr"]) in allowed
                    expected[pair] = edit["edge_attr"]
            assert edges_of(one["graph"]) == expected
            by_pyg = probabilities(road.net, one["graph"])
            assert one["prediction"]["probabilities"] == pytest.approx(
                by_pyg.tolist(), rel=1e-4, abs=1e-6
            )
            assert int(by_pyg.argmax()) != int(probabilities(road.net, graph).argmax())
    assert actions["add"] > 0
    assert actions["remove"] > 0


def test_answers_can_be_posted_again_in_every_form_that_is_read(road: Road) -> None:
    found = road.explained(graph=road.graphs[10], preset="thorough", constraints={"max_ratio": 1.0})
    best = found["result"]["answers"][0]["counterfactuals"][0]
    as_pyg = road.api.client.get(f"/v1/explanations/{found['id']}?format=pyg").json()
    again = road.predicted(graphs=[best["graph"], as_pyg])
    for one in again:
        assert one["probabilities"] == pytest.approx(best["prediction"]["probabilities"], rel=1e-5)
    cytoscape = road.api.client.get(f"/v1/explanations/{found['id']}?format=cytoscape").json()
    read = nx.cytoscape_graph(cytoscape)
    carried = {frozenset(ends): data["edge_attr"] for *ends, data in read.edges(data=True)}
    assert carried == edges_of(best["graph"])
    graphml = nx.parse_graphml(
        road.api.client.get(f"/v1/explanations/{found['id']}?format=graphml").text
    )
    carried = {
        frozenset(ends): [data["e0"], data["e1"]] for *ends, data in graphml.edges(data=True)
    }
    assert carried == edges_of(best["graph"])


def test_class_explanations_carry_attributes(road: Road) -> None:
    for target in (0, 1):
        found = road.explained(
            kind="class", target_class=target, example_count=2, candidates=4, steps=4, node_count=5
        )
        assert found["result"]["examples"]
        for example in found["result"]["examples"]:
            by_pyg = probabilities(road.net, example["graph"])
            assert example["confidence"] == pytest.approx(float(by_pyg[target]), rel=1e-4)


class NodeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = GATv2Conv(3, 4, heads=2, edge_dim=2)
        self.second = GINEConv(
            nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)), edge_dim=2
        )

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        return self.second(F.elu(self.first(x, edge_index, edge_attr)), edge_index, edge_attr)


def test_nodes_are_explained_with_what_their_edges_carry(road: Road, tmp_path: Path) -> None:
    torch.manual_seed(3)
    # two graphs that are joined, so that a node does not see all of it
    nodes, edges = [], []
    for number, graph in enumerate(road.graphs[:2]):
        nodes += [{**node, "id": f"{number}{node['id']}"} for node in graph["nodes"]]
        edges += [
            {**edge, "source": f"{number}{edge['source']}", "target": f"{number}{edge['target']}"}
            for edge in graph["edges"]
        ]
    edges.append({"source": "0n1", "target": "1n1", "edge_attr": KINDS[1]})
    whole = {"nodes": nodes, "edges": edges}
    net = NodeNet().eval()
    data = data_of(whole)
    with torch.no_grad():  # nodes are near the border, half of them on either side
        logits = net(data.x, data.edge_index, data.edge_attr)
        net.second.nn[2].bias[1] += (logits[:, 0] - logits[:, 1]).median()
    export(Chain(net, [net.first, F.elu, net.second]), tmp_path)
    answer = road.api.client.post(
        "/v1/gnns",
        data={"name": "nodes", "spec": (tmp_path / "spec.json").read_text()},
        files={"weights": ("w", (tmp_path / "weights.safetensors").read_bytes())},
        headers={"Prefer": "respond-async"},
    )
    road.work()
    gnn = road.api.client.get(answer.headers["location"]).json()
    assert gnn["state"] == "ready", gnn
    asked = ["0n0", "0n2", "1n3"]
    found = road.explained(
        gnn=gnn["id"],
        graph=whole,
        nodes=asked,
        preset="thorough",
        constraints={"max_ratio": 1.0},
    )
    verified = 0
    for name, answer in zip(asked, found["result"]["answers"], strict=True):
        place = [node["id"] for node in nodes].index(name)
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
                by_pyg = net(data.x, data.edge_index, data.edge_attr)[place].softmax(dim=0)
            assert one["prediction"]["probabilities"] == pytest.approx(
                by_pyg.tolist(), rel=1e-4, abs=1e-6
            )
            verified += 1
    assert verified > 0


def test_attributes_are_asked_for_where_they_are_missing(road: Road) -> None:
    bare = json.loads(json.dumps(road.graphs[10]))
    for edge in bare["edges"]:
        del edge["edge_attr"]
    refused(road.post(graph=bare), "/graph/edges/0/edge_attr", f"{road.gnn} takes 2 attributes")
    wide = json.loads(json.dumps(road.graphs[10]))
    wide["edges"][1]["edge_attr"] = [1.0, 0.0, 0.0]
    refused(road.post(graphs=[wide]), "/graphs/0/edges/1/edge_attr", "has 3 attributes")
    answer = road.api.client.post("/v1/datasets", json={"name": "bare", "graphs": [bare]})
    assert answer.json()["edge_features"] == 0
    body = road.post(graph=road.graphs[10], dataset=answer.json()["id"])
    refused(body, "/dataset", "have no attributes")
