"""The deployment for many machines: PostgreSQL, a shared Redis, separate API and workers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from tests.processes import EdgeCounter, Stack


def ring(nodes: int, *chords: tuple[int, int]) -> dict[str, Any]:
    pairs = [(node, (node + 1) % nodes) for node in range(nodes)] + list(chords)
    return {
        "nodes": [{"id": f"n{node}", "x": [1.0]} for node in range(nodes)],
        "edges": [{"source": f"n{a}", "target": f"n{b}"} for a, b in pairs],
    }


def test_a_posted_graph_is_explained(scaled_out_stack: Stack, edge_counter: EdgeCounter) -> None:
    stack = scaled_out_stack
    api = stack.start_service().url
    stack.wait_for(stack.start_worker("train"), stack.start_worker("sample,light"))
    with httpx.Client(base_url=api, timeout=70) as client:
        files = {"spec": json.dumps(edge_counter.spec), "weights": edge_counter.weights}
        gnn = client.post("/v1/gnns", data={"name": "counter"}, files=files)
        assert gnn.status_code == 201, gnn.text
        graphs = [ring(n) for n in (4, 5, 6, 7)] + [ring(6, (0, 2)), ring(5, (0, 2))]
        dataset = client.post("/v1/datasets", json={"name": "rings", "graphs": graphs})
        assert dataset.status_code == 201, dataset.text
        request = {
            "kind": "counterfactual",
            "gnn": gnn.json()["id"],
            "dataset": dataset.json()["id"],
            "graph": ring(5),
            "denoiser": {"steps": 10, "hidden": 4, "blocks": 1},
        }
        answer = client.post("/v1/explanations", json=request, headers={"Prefer": "wait=60"})
        assert answer.status_code == 200, answer.text
        [explained] = answer.json()["result"]["answers"]
        assert explained["prediction"]["predicted_class"] == 0
        best = explained["counterfactuals"][0]
        assert [edit["action"] for edit in best["edits"]] == ["add"]
        assert best["prediction"]["predicted_class"] == 1
        assert client.get("/readyz").json()["reasons"] == []
