"""The form that runs on many machines: PostgreSQL, a shared Redis, API and workers apart."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import safetensors.torch
import torch

from models.gnn.network import Gnn
from models.gnn.spec import GinLayer, GnnSpec, LinearLayer, PoolLayer

if TYPE_CHECKING:
    from conftest import Stack

SPEC = {
    "features": 1,
    "classes": 2,
    "layers": [
        {"type": "gin", "out": 4, "hidden": 4},
        {"type": "pool", "op": "sum"},
        {"type": "linear", "out": 2},
    ],
}


def weights() -> bytes:
    """Class 1 from nodes + 2·edges > 16 on, with the gradient that the probe asks for."""
    gnn = Gnn(GnnSpec(1, 2, (GinLayer(out=4, hidden=4), PoolLayer("sum"), LinearLayer(2))))
    state = {name: torch.zeros_like(value) for name, value in gnn.state_dict().items()}
    state["layers.0.conv.nn.0.weight"].fill_(1)
    state["layers.0.conv.nn.2.weight"].copy_(torch.eye(4))
    state["layers.2.linear.weight"][1] = 0.25
    state["layers.2.linear.bias"][1] = -16.0
    return safetensors.torch.save(state)


def ring(nodes: int, *chords: tuple[int, int]) -> dict[str, Any]:
    pairs = [(node, (node + 1) % nodes) for node in range(nodes)] + list(chords)
    return {
        "nodes": [{"id": f"n{node}", "x": [1.0]} for node in range(nodes)],
        "edges": [{"source": f"n{a}", "target": f"n{b}"} for a, b in pairs],
    }


def test_a_posted_graph_comes_back_explained(scaled_out_stack: Stack) -> None:
    stack = scaled_out_stack
    api = stack.start_service().url
    stack.wait_for(stack.start_worker("train"), stack.start_worker("sample,light"))
    with httpx.Client(base_url=api, timeout=70) as client:
        files = {"spec": json.dumps(SPEC), "weights": weights()}
        gnn = client.post("/v1/gnns", data={"name": "counter"}, files=files)
        assert gnn.status_code == 201, gnn.text
        graphs = [ring(n) for n in (4, 5, 6, 7)] + [ring(6, (0, 2)), ring(5, (0, 2))]
        dataset = client.post("/v1/datasets", json={"name": "rings", "graphs": graphs})
        assert dataset.status_code == 201, dataset.text
        question = {
            "kind": "counterfactual",
            "gnn": gnn.json()["id"],
            "dataset": dataset.json()["id"],
            "graph": ring(5),
            "denoiser": {"steps": 10, "hidden": 4, "blocks": 1},
        }
        answer = client.post("/v1/explanations", json=question, headers={"Prefer": "wait=60"})
        assert answer.status_code == 200, answer.text
        [explained] = answer.json()["result"]["answers"]
        assert explained["prediction"]["predicted_class"] == 0
        best = explained["counterfactuals"][0]
        assert [edit["action"] for edit in best["edits"]] == ["add"]
        assert best["prediction"]["predicted_class"] == 1
        assert client.get("/readyz").json()["reasons"] == []
