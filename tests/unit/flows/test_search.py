"""The explainer `search` over HTTP: one job, no denoiser, verified answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from safetensors.torch import save

torch.set_num_threads(1)
SPEC = {
    "features": 1,
    "classes": 2,
    "layers": [
        {"type": "gin", "out": 2, "hidden": 2},
        {"type": "pool", "op": "sum"},
        {"type": "linear", "out": 2},
    ],
}


def edge_counter(threshold: float) -> bytes:
    """Weights of a GNN whose class is 1 if nodes + 2·edges > threshold."""
    return save(
        {
            "layers.0.conv.eps": torch.zeros(1),
            "layers.0.conv.nn.0.weight": torch.ones(2, 1),
            "layers.0.conv.nn.0.bias": torch.zeros(2),
            "layers.0.conv.nn.2.weight": torch.eye(2),
            "layers.0.conv.nn.2.bias": torch.zeros(2),
            "layers.2.linear.weight": torch.tensor([[0.0, 0.0], [0.5, 0.5]]),
            "layers.2.linear.bias": torch.tensor([0.0, -threshold]),
        }
    )


def ring(nodes: int) -> dict[str, Any]:
    ends = [list(range(nodes)), [(node + 1) % nodes for node in range(nodes)]]
    return {"edge_index": ends, "num_nodes": nodes, "node_ids": [f"n{i}" for i in range(nodes)]}


@pytest.fixture(scope="module")
def api(deployed: Callable[..., Any]) -> Any:
    return deployed()


@pytest.fixture(scope="module")
def inputs(api: Any) -> dict[str, str]:
    """Ids of a GNN that counts edges and of a reference set of rings."""
    gnn = api.client.post(
        "/v1/gnns",
        data={"name": "edges", "spec": json.dumps(SPEC)},
        files={"weights": ("w", edge_counter(18.5))},
        headers={"Prefer": "respond-async"},
    )
    assert gnn.status_code == 202, gnn.text
    api.work()
    graphs = [ring(nodes) for nodes in (4, 5, 6, 7, 8)]
    dataset = api.client.post("/v1/datasets", json={"name": "rings", "graphs": graphs})
    return {"gnn": gnn.json()["id"], "dataset": dataset.json()["id"]}


@pytest.fixture
def post(api: Any, inputs: dict[str, str]) -> Callable[..., Any]:
    def send(**body: Any) -> Any:
        asked = {"kind": "counterfactual", "explainer": "search", **inputs, "graph": ring(6)}
        asked = {name: value for name, value in {**asked, **body}.items() if value is not None}
        return api.client.post("/v1/explanations", json=asked)

    return send


def explained(api: Any, answer: Any) -> dict[str, Any]:
    assert answer.status_code == 202, answer.text
    api.work()
    found: dict[str, Any] = api.client.get(answer.headers["location"]).json()
    assert found["state"] == "succeeded", found["job"]["error"]
    return found


def test_a_search_is_one_job_and_creates_no_denoiser(api: Any, post: Callable[..., Any]) -> None:
    before = api.written()
    answer = post()
    posted = answer.json()
    after = api.written()
    assert {name: after[name] - before[name] for name in ("jobs", "denoisers", "explanations")} == {
        "jobs": 1,
        "denoisers": 0,
        "explanations": 1,
    }
    assert (posted["denoiser"], posted["job"]["waiting_for"]) == (None, None)
    assert posted["job"]["subject"]["denoiser"] is None
    assert api.queued("train") == []

    found = explained(api, answer)
    assert api.written()["denoisers"] == before["denoisers"]
    assert found["denoiser"] is None
    result = found["result"]
    (one,) = result["answers"]
    assert len(one["counterfactuals"]) == 2  # short and long chords
    for counterfactual in one["counterfactuals"]:
        (edit,) = counterfactual["edits"]  # 6 + 2·7 > 18.5
        assert (edit["action"], edit["plausibility"], edit["proposed_by"]) == (
            "add",
            None,
            "search",
        )
        assert counterfactual["denoiser_likelihood"] is None
        assert counterfactual["typicality"] is None
        assert counterfactual["found_by"] == "search"
        assert counterfactual["prediction"]["predicted_class"] == 1
    summary = result["summary"]
    assert (summary["edits_by_denoiser"], summary["edits_by_search"]) == (0, 1)
    assert result["mmd"]["reference_count"] == 5
    receipt = result["receipt"]
    assert (receipt["denoiser_sha256"], receipt["denoiser_key"]) == (None, None)
    assert receipt["objective_fallback"] is None
    assert receipt["config"]["explainer"] == "search"
    assert "effect_source" not in receipt["config"]
    assert receipt["work"]["samples"] == 0


def test_what_was_left_out_is_named_in_every_answer(
    api: Any, post: Callable[..., Any], inputs: dict[str, str]
) -> None:
    edges = [{"source": i, "target": (i + 1) % 6} for i in range(6)]
    posted = {"nodes": [{"id": i, "colour": "red"} for i in range(6)], "edges": edges}
    left_out = [
        'these attributes of nodes are not read and were left out: "colour"',
        "nodes have no features (`x`); each of them has the feature 1",
    ]
    found = explained(api, post(graph=posted, aim="minimal"))["result"]
    assert found["warnings"][:2] == left_out

    headers = {"Prefer": "respond-async"}
    path = f"/v1/gnns/{inputs['gnn']}/predictions"
    predicted = api.client.post(path, json={"graph": posted}, headers=headers)
    api.work()
    assert api.client.get(predicted.headers["location"]).json()["result"]["warnings"] == left_out

    dataset = api.client.post("/v1/datasets", json={"name": "bare", "graphs": [posted]}).json()
    assert dataset["warnings"] == left_out
    assert api.client.get(f"/v1/datasets/{dataset['id']}").json()["warnings"] == left_out
    clean = {**ring(5), "x": [[1.0]] * 5}
    stored = api.client.post("/v1/datasets", json={"name": "clean", "graphs": [clean]}).json()
    assert stored["warnings"] == []

    samples = {"graphs": [{**posted, "label": 0}], "min_accuracy": 0}
    gnn = api.client.post(
        "/v1/gnns",
        data={"name": "sampled", "spec": json.dumps(SPEC)},
        files={"weights": ("w", edge_counter(18.5)), "samples": ("s", json.dumps(samples))},
        headers=headers,
    )
    api.work()
    report = api.client.get(gnn.headers["location"]).json()["report"]
    assert report["warnings"][:2] == left_out


def test_a_graph_that_has_the_target_class_already_gets_a_reason(
    api: Any, post: Callable[..., Any]
) -> None:
    (answer,) = explained(api, post(target_class=0))["result"]["answers"]
    assert answer["found"] is False
    assert "already" in answer["reason"]


@pytest.mark.parametrize("form", ["svg", "graphml", "cytoscape", "pyg"])
def test_an_answer_of_a_search_has_every_form(
    api: Any, post: Callable[..., Any], form: str
) -> None:
    found = explained(api, post())
    drawn = api.client.get(f"/v1/explanations/{found['id']}", params={"format": form})
    assert drawn.status_code == 200, drawn.text


def test_a_closest_miss_of_a_search_is_drawn(api: Any, post: Callable[..., Any]) -> None:
    found = explained(api, post(graph=ring(4)))  # 4 + 2·4 is far from 18.5
    (one,) = found["result"]["answers"]
    assert not one["found"]
    assert {edit["plausibility"] for edit in one["closest_miss"]["edits"]} == {None}
    drawn = api.client.get(f"/v1/explanations/{found['id']}", params={"format": "svg"})
    assert "closest miss" in drawn.text


@pytest.mark.parametrize("preset", ["fast", "balanced", "thorough"])
def test_presets_constraints_and_time_budgets_apply_to_a_search(
    api: Any, post: Callable[..., Any], preset: str
) -> None:
    answer = post(
        graph=None,
        graphs=[ring(6), ring(5)],
        preset=preset,
        alternatives=1,
        target_class=1,
        time_budget=30,
        constraints={"max_ratio": 0.5, "frozen_nodes": [["n0", "n1"], []], "actions": "add"},
    )
    first, second = explained(api, answer)["result"]["answers"]
    (counterfactual,) = first["counterfactuals"]
    (edit,) = counterfactual["edits"]
    assert not {edit["source"], edit["target"]} & {"n0", "n1"}
    assert len(second["counterfactuals"][0]["edits"]) == 2  # 5 + 2·7 > 18.5


@pytest.mark.parametrize(
    ("denoiser", "sent"),
    [("den_1", '"den_1"'), ({"steps": 5}, '{"steps":5}'), ({}, "{}")],
)
def test_a_search_accepts_no_denoiser(post: Callable[..., Any], denoiser: Any, sent: str) -> None:
    answer = post(denoiser=denoiser)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == "/denoiser"
    assert f"is {sent}; the explainer 'search' uses no denoiser" in error["detail"]
    assert "'d4' or 'd4-paper'" in error["detail"]


def test_a_class_is_not_explained_by_search(post: Callable[..., Any]) -> None:
    answer = post(kind="class", graph=None, target_class=1)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert (error["pointer"], error["detail"]) == (
        "/explainer",
        "should be 'd4', 'd4-paper', 'mined', 'xgnn' or 'hill-climbing'; got \"search\"",
    )


def test_a_failed_search_can_be_retried_and_its_inputs_are_protected(
    api: Any, inputs: dict[str, str], post: Callable[..., Any]
) -> None:
    job = post().json()["job"]["id"]
    refused = api.client.delete(f"/v1/datasets/{inputs['dataset']}")
    assert refused.status_code == 409
    api.client.post(f"/v1/jobs/{job}/cancel")
    again = api.client.post(f"/v1/jobs/{job}/retry")
    assert again.status_code == 202, again.text
    assert (again.json()["waiting_for"], again.json()["subject"]["denoiser"]) == (None, None)
    api.work()
    assert api.client.get(f"/v1/jobs/{again.json()['id']}").json()["state"] == "succeeded"


def test_an_idempotency_key_applies_to_a_search(api: Any, inputs: dict[str, str]) -> None:
    body = {"kind": "counterfactual", "explainer": "search", **inputs, "graph": ring(6)}
    ids = {
        api.client.post(
            "/v1/explanations", json=body, headers={"Idempotency-Key": "search-1"}
        ).json()["id"]
        for _ in range(2)
    }
    assert len(ids) == 1


def test_searches_and_d4_share_a_batch(api: Any, post: Callable[..., Any]) -> None:
    """Requests with and without a denoiser about the same GNN and dataset."""
    quick = {"steps": 5, "hidden": 4, "blocks": 1}
    posted = [post(seed=1), post(seed=1, explainer="d4", denoiser=quick), post(seed=2)]
    found = [explained(api, answer) for answer in posted]
    assert [one["denoiser"] is None for one in found] == [True, False, True]
    smallest = [len(one["result"]["answers"][0]["counterfactuals"][0]["edits"]) for one in found]
    assert smallest == [1, 1, 1]
