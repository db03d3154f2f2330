"""Global counterfactuals over HTTP: every statement of the answer is checked again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import networkx as nx
import pytest
import torch
from safetensors.torch import save

torch.set_num_threads(1)
TYPES = ("C", "N", "O")
SPEC = {
    "features": 3,
    "classes": 2,
    "class_names": ["harmless", "harmful"],
    "feature_schema": {"features": [{"name": name, "group": "element"} for name in TYPES]},
    "layers": [
        {"type": "gin", "out": 2, "hidden": 2},
        {"type": "pool", "op": "sum"},
        {"type": "linear", "out": 2},
    ],
}
Document = dict[str, Any]


def oxygen_counter() -> bytes:
    """Weights of a GNN whose class is 1 if 1 + degree, summed over nodes of type O, exceeds 3.5."""
    return save(
        {
            "layers.0.conv.eps": torch.zeros(1),
            "layers.0.conv.nn.0.weight": torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]),
            "layers.0.conv.nn.0.bias": torch.zeros(2),
            "layers.0.conv.nn.2.weight": torch.eye(2),
            "layers.0.conv.nn.2.bias": torch.zeros(2),
            "layers.2.linear.weight": torch.tensor([[0.0, 0.0], [0.5, 0.5]]),
            "layers.2.linear.bias": torch.tensor([0.0, -3.5]),
        }
    )


def posted(shape: nx.Graph, types: Iterable[int]) -> Document:
    return {
        "nodes": [
            {"id": node, "x": [float(kind == column) for column in range(3)]}
            for node, kind in enumerate(types)
        ],
        "edges": [{"source": one, "target": other} for one, other in shape.edges],
    }


def reference() -> list[Document]:
    """Paths and stars with one, two or three atoms of O or N."""
    graphs = []
    for number in range(40):
        shape = nx.star_graph(6) if number % 3 == 0 else nx.path_graph(7 + number % 2)
        types = [0] * len(shape)
        for place in range(1 + number % 4):
            types[(place * 2 + number) % len(shape)] = 2 if number % 5 < 3 else 1
        graphs.append(posted(shape, types))
    return graphs


@pytest.fixture(scope="module")
def api(deployed: Callable[..., Any]) -> Any:
    return deployed()


@pytest.fixture(scope="module")
def inputs(api: Any) -> Document:
    gnn = api.client.post(
        "/v1/gnns",
        data={"name": "oxygen", "spec": json.dumps(SPEC)},
        files={"weights": ("w", oxygen_counter())},
        headers={"Prefer": "respond-async"},
    )
    assert gnn.status_code == 202, gnn.text
    api.work()
    dataset = api.client.post("/v1/datasets", json={"name": "oxygen", "graphs": reference()})
    assert dataset.status_code == 201, dataset.text
    return {"gnn": gnn.json()["id"], "dataset": dataset.json()["id"]}


@pytest.fixture(scope="module")
def ask(api: Any, inputs: Document) -> Callable[..., Any]:
    def send(query: str = "", headers: Document | None = None, **body: Any) -> Any:
        asked = {"kind": "global", **inputs, "source_class": "harmless", "count": 2, "theta": 0.15}
        asked = {name: value for name, value in {**asked, **body}.items() if value is not None}
        return api.client.post(f"/v1/explanations{query}", json=asked, headers=headers)

    return send


@pytest.fixture(scope="module")
def explanation(api: Any, ask: Callable[..., Any]) -> Document:
    answer = ask(metadata={"team": "audit"}, seed=3)
    assert answer.status_code == 202, answer.text
    posted_job = answer.json()["job"]
    assert (posted_job["kind"], posted_job["waiting_for"]) == ("global", None)  # no training
    api.work()
    found: Document = api.client.get(answer.headers["location"]).json()
    assert found["state"] == "succeeded", found["job"]["error"]
    return found


def test_all(explanation):
    print(json.dumps(explanation["result"])[:3000])
