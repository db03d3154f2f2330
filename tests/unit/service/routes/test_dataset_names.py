"""Reference sets by name and version."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.flows.api_flow import assert_refused

GRAPH = {"edge_index": [[0, 1], [1, 2]], "label": 0}


def created(api: Any, name: str, graphs: int = 1) -> dict[str, Any]:
    answer = api.client.post("/v1/datasets", json={"name": name, "graphs": [GRAPH] * graphs})
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    return document


def test_a_name_has_versions_and_means_the_newest(api: Any) -> None:
    first, second, other = created(api, "rings"), created(api, "rings", 2), created(api, "trees")
    assert [first["version"], second["version"], other["version"]] == [1, 2, 1]
    found = {
        reference: api.client.get(f"/v1/datasets/{reference}").json()["id"]
        for reference in ("rings", "rings@1", "rings@2", first["id"])
    }
    assert found == {
        "rings": second["id"],
        "rings@1": first["id"],
        "rings@2": second["id"],
        first["id"]: first["id"],
    }
    listed = api.client.get("/v1/datasets", params={"name": "rings"}).json()["items"]
    assert [item["version"] for item in listed] == [2, 1]


def test_a_large_graph_is_a_version_too(api: Any) -> None:
    created(api, "web")
    answer = api.client.post(
        "/v1/datasets/large",
        params={"name": "web"},
        content=b'{"edge_index": [[0, 1], [1, 2]], "x": [[1.0], [1.0], [1.0]]}\n',
        headers={"Content-Type": "application/x-ndjson"},
    )
    assert (answer.status_code, answer.json()["version"]) == (201, 2)


def test_explanations_and_denoisers_take_names_and_return_ids(api: Any) -> None:
    gnn, dataset = api.gnn(), created(api, "rings")
    body = {"kind": "counterfactual", "gnn": gnn, "dataset": "rings", "graph": api.graph()}
    answer = api.client.post("/v1/explanations", json=body)
    assert answer.json()["dataset"] == dataset["id"]
    body = {"gnn": gnn, "dataset": "rings@1", "objective": "class"}
    assert api.client.post("/v1/denoisers", json=body).json()["dataset"] == dataset["id"]


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nowhere", "there is no dataset called 'nowhere'"),
        ("rings@7", "the dataset 'rings' has no version 7; its newest: 1"),
        ("rings@production", "the version of a dataset is a number, such as rings@1"),
        ("set_unknown", "set_unknown"),
    ],
)
def test_an_unknown_reference_is_explained(api: Any, reference: str, message: str) -> None:
    created(api, "rings")
    body = {"kind": "class", "gnn": api.gnn(), "dataset": reference, "target_class": 0}
    assert_refused(api.client.post("/v1/explanations", json=body), "/dataset", message, 404)
    assert api.client.get(f"/v1/datasets/{reference}").status_code == 404


def test_a_name_alone_deletes_nothing_and_versions_are_not_reused(api: Any) -> None:
    first = created(api, "rings")
    refused = api.client.delete("/v1/datasets/rings")
    assert_refused(refused, "/dataset_id", f"use {first['id']} or rings@1")
    assert api.client.delete("/v1/datasets/rings@1").status_code == 204
    assert created(api, "rings")["version"] == 2


@pytest.mark.parametrize("name", ["a@b", "a/b", "set_1", ".."])
def test_names_that_look_like_references_are_refused(api: Any, name: str) -> None:
    answer = api.client.post("/v1/datasets", json={"name": name, "graphs": [GRAPH]})
    assert_refused(answer, "/name")
