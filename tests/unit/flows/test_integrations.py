"""KServe's V1 protocol and TrustyAI's upload, with explanations that really ran."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from jsonschema import Draft202012Validator

from tests.unit.flows.test_search import SPEC, edge_counter, ring

torch.set_num_threads(1)
SEARCH = {"explainer": "search", "aim": "minimal", "judges": "none"}

# KServe, "Data Plane (V1)": the payloads of `GET /v1/models/<name>` and `:explain`.
READY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "ready": {"type": "boolean"}},
    "required": ["name", "ready"],
    "additionalProperties": False,
}
EXPLAINED = {
    "type": "object",
    "properties": {"predictions": {"type": "array"}, "explanations": {"type": "array"}},
    "required": ["explanations"],
    "additionalProperties": False,
}
FAILED = {
    "type": "object",
    "properties": {"error": {"type": "string", "minLength": 1}},
    "required": ["error"],
}
# Open Inference Protocol (V2), as the upload of TrustyAI's service takes it.
TENSORS = {
    "type": "array",
    "minItems": 2,  # several tensors are columns
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "shape": {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 1},
            "datatype": {"enum": ["BOOL", "INT32", "INT64", "FP32", "FP64", "BYTES"]},
            "data": {"type": "array", "items": {"type": "number"}},
        },
        "required": ["name", "shape", "datatype", "data"],
        "additionalProperties": False,
    },
}
UPLOAD = {
    "type": "object",
    "properties": {
        "model_name": {"type": "string", "pattern": r"^[^/\\]+$"},
        "data_tag": {"type": "string", "pattern": "^(?!TRUSTYAI)."},
        "is_ground_truth": {"const": False},
        "request": {
            "type": "object",
            "properties": {"id": {"type": "string"}, "inputs": TENSORS},
            "required": ["inputs"],
            "additionalProperties": False,
        },
        "response": {
            "type": "object",
            "properties": {
                "model_name": {"type": "string"},
                "id": {"type": "string"},
                "outputs": TENSORS,
            },
            "required": ["outputs"],
            "additionalProperties": False,
        },
    },
    "required": ["model_name", "request", "response"],
    "additionalProperties": False,
}


def check(document: Any, schema: dict[str, Any]) -> None:
    assert [error.message for error in Draft202012Validator(schema).iter_errors(document)] == []


@pytest.fixture(scope="module")
def api(deployed: Callable[..., Any]) -> Any:
    return deployed()


@pytest.fixture(scope="module")
def gnn(api: Any) -> str:
    """`edges@production` counts edges."""
    posted = api.client.post(
        "/v1/gnns",
        data={"name": "edges", "spec": json.dumps(SPEC)},
        files={"weights": ("w", edge_counter(18.5))},
        headers={"Prefer": "respond-async"},
    )
    for name in ("edges", posted.json()["id"]):
        probing = api.client.get(f"/v1/models/{name}")
        assert probing.status_code == 503
        check(probing.json(), FAILED)
        assert "is not ready: it is probing" in probing.json()["error"]
    asked = api.client.post(
        f"/v1/models/{posted.json()['id']}:explain", json={"instances": [ring(6)]}
    )
    assert asked.status_code == 503
    check(asked.json(), FAILED)
    api.work()
    alias = api.client.put("/v1/gnns/edges/aliases/production", json={"version": 1})
    assert alias.status_code == 200, alias.text
    return str(posted.json()["id"])


@pytest.fixture(scope="module")
def dataset(api: Any) -> str:
    graphs = [ring(n) for n in range(5, 12)]
    answer = api.client.post("/v1/datasets", json={"name": "rings", "graphs": graphs})
    return str(answer.json()["id"])


def explain(api: Any, name: str, body: Any, **headers: str) -> Any:
    """Posts it, while a worker runs jobs beside it."""
    done = threading.Event()

    def work() -> None:
        while not done.wait(0.05):
            api.work()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        return api.client.post(f"/v1/models/{name}:explain", json=body, headers=headers)
    finally:
        done.set()
        worker.join()


@pytest.mark.parametrize("name", ["edges", "edges@1", "edges@production"])
def test_a_ready_model_says_so(api: Any, gnn: str, name: str) -> None:
    answer = api.client.get(f"/v1/models/{name}")
    assert answer.status_code == 200
    check(answer.json(), READY)
    assert answer.json() == {"name": name, "ready": True}


def test_an_unknown_model_gets_404_in_kserves_shape(api: Any, gnn: str) -> None:
    for answer in (
        api.client.get("/v1/models/nothing"),
        api.client.post("/v1/models/nothing:explain", json={"instances": [ring(5)]}),
    ):
        assert answer.status_code == 404
        check(answer.json(), FAILED)
        assert answer.json()["error"] == "there is no GNN with the id 'nothing'" or (
            "nothing" in answer.json()["error"]
        )


def test_instances_are_explained_in_order(api: Any, gnn: str, dataset: str) -> None:
    graphs = [ring(6), ring(7), ring(3)]
    answer = explain(
        api, "edges@production", {"instances": graphs, "parameters": {**SEARCH, "seed": 3}}
    )
    assert answer.status_code == 200, answer.text
    document = answer.json()
    check(document, EXPLAINED)
    assert [one["instance"] for one in document["explanations"]] == [0, 1, 2]
    assert [one["predicted_class"] for one in document["predictions"]] == [0, 1, 0]
    assert {one["stage"] for one in document["explanations"]} == {"final"}
    own = api.client.get(document["explanations"][0]["links"]["self"]).json()
    assert [one["answer"] for one in document["explanations"]] == own["result"]["answers"]
    assert own["dataset"] == dataset  # the only one that fits
    for one, graph in zip(document["explanations"], graphs, strict=True):
        assert len(one["answer"]["graph"]["nodes"]) == graph["num_nodes"]


def test_a_long_explanation_answers_with_links(api: Any, gnn: str, dataset: str) -> None:
    body = {"instances": [ring(6), ring(9)], "parameters": {"dataset": "rings", **SEARCH}}
    answer = api.client.post("/v1/models/edges:explain", json=body, headers={"Prefer": "wait=1"})
    assert answer.status_code == 202, answer.text
    document = answer.json()
    check(document, EXPLAINED)
    assert document["predictions"] == []
    first, second = document["explanations"]
    assert (first["answer"], first["stage"], first["state"]) == (None, None, "queued")
    assert first["explanation"] == second["explanation"]
    assert answer.headers["location"] == f"/v1/explanations/{first['explanation']}"
    api.work()
    done = api.client.get(first["links"]["self"]).json()
    assert (done["state"], len(done["result"]["answers"])) == ("succeeded", 2)


def test_a_provisional_answer_is_named_as_such(api: Any, gnn: str, dataset: str) -> None:
    """The final one waits for a training that nobody runs here."""
    few = {"judges": "none", "aim": "minimal", "denoiser": {"steps": 3}}
    body = {"instances": [ring(6)], "parameters": {"dataset": dataset, **few}}
    done = threading.Event()

    def work() -> None:
        while not done.wait(0.05):
            api.work(kinds=("provisional",))

    worker = threading.Thread(target=work)
    worker.start()
    try:
        answer = api.client.post("/v1/models/edges:explain?wait_for=provisional", json=body)
    finally:
        done.set()
        worker.join()
    assert answer.status_code == 200, answer.text
    [one] = answer.json()["explanations"]
    assert (one["stage"], one["state"]) == ("provisional", "running")
    assert one["answer"]["found"] is True
    api.work()


def test_a_failed_explanation_gets_500_with_its_reason(api: Any, gnn: str, dataset: str) -> None:
    from d4explain.gnn.errors import RefusedError  # noqa: PLC0415
    from store.jobs import JobKind  # noqa: PLC0415

    def fail(_: Any) -> Any:
        raise RefusedError("this worker refuses")

    done = threading.Event()

    def work() -> None:
        while not done.wait(0.05):
            api.work(handlers={JobKind.COUNTERFACTUAL: fail})

    worker = threading.Thread(target=work)
    worker.start()
    try:
        answer = api.client.post(
            "/v1/models/edges:explain", json={"instances": [ring(8)], "parameters": SEARCH}
        )
    finally:
        done.set()
        worker.join()
    assert answer.status_code == 500, answer.text
    check(answer.json(), FAILED)
    assert "this worker refuses" in answer.json()["error"]
    assert answer.json()["explanation"].startswith("exp_")


def with_parameters(**parameters: Any) -> dict[str, Any]:
    return {"instances": [ring(5)], "parameters": parameters}


@pytest.mark.parametrize(
    ("body", "status", "pointer", "text"),
    [
        ({}, 422, "/instances", "is required"),
        ({"instances": []}, 422, "/instances", "at least 1"),
        ({"instances": [{"nodes": []}]}, 422, "/instances/0", ""),
        ({"instances": [{"node": 1}, "x"]}, 422, "/instances", "graphs or nodes, not both"),
        ({"instances": [{"node": 1}]}, 422, "", ""),
        ({"instances": [ring(5)], "inputs": []}, 422, "/inputs", "not a known field"),
        (with_parameters(graph={}), 422, "/parameters/graph", "path"),
        (with_parameters(preset="?"), 422, "/parameters/preset", "fast"),
        (with_parameters(target_class=9), 422, "/parameters/target_class", "9"),
        (with_parameters(dataset="no"), 404, "/parameters/dataset", "no"),
    ],
)
def test_faults_are_named_as_the_caller_wrote_them(
    api: Any, gnn: str, dataset: str, *, body: Any, status: int, pointer: str, text: str
) -> None:
    before = api.written()
    answer = api.client.post("/v1/models/edges:explain", json=body)
    assert answer.status_code == status, answer.text
    check(answer.json(), FAILED)
    assert any(one["pointer"].startswith(pointer) for one in answer.json()["errors"]), answer.text
    assert text in answer.json()["error"]
    assert api.written() == before


def test_a_body_that_is_no_json_gets_400(api: Any, gnn: str) -> None:
    answer = api.client.post(
        "/v1/models/edges:explain", content=b"{", headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400
    check(answer.json(), FAILED)
    text = api.client.post("/v1/models/edges:explain", content=b"x")
    assert text.status_code == 415
    check(text.json(), FAILED)


def test_a_repeated_request_gets_the_same_explanation(api: Any, gnn: str, dataset: str) -> None:
    body = {"instances": [ring(6)], "parameters": {**SEARCH, "seed": 11}}
    first, second = (
        explain(api, "edges", body, **{"Idempotency-Key": "kserve-1"}) for _ in range(2)
    )
    assert first.json() == second.json()
    assert second.headers["idempotency-replayed"] == "true"


def test_several_reference_sets_need_a_name_or_a_tag(
    deployed: Callable[..., Any],
) -> None:
    api = deployed()
    id_ = api.gnn()
    sets = [api.dataset(), api.dataset()]
    graph = api.graph()
    asked = {"instances": [graph], "parameters": SEARCH}
    refused = api.client.post(f"/v1/models/{id_}:explain", json=asked)
    assert refused.status_code == 422
    assert "/parameters/dataset: is required" in refused.json()["error"]
    assert "a set@1" in refused.json()["error"]
    patched = api.client.patch(f"/v1/gnns/{id_}", json={"tags": {"dataset": sets[0]}})
    assert patched.status_code == 200, patched.text
    answer = api.client.post(
        f"/v1/models/{id_}:explain", json=asked, headers={"Prefer": "respond-async"}
    )
    assert answer.status_code == 202, answer.text
    own = api.client.get(answer.json()["explanations"][0]["links"]["self"]).json()
    assert own["dataset"] == sets[0]


# TrustyAI


def columns(tensors: list[dict[str, Any]]) -> dict[str, Any]:
    """Read as TrustyAI does: each tensor is a column, all have one shape."""
    assert len({tuple(one["shape"]) for one in tensors}) == 1
    types = {"INT64": np.int64, "FP64": np.float64}
    found = {}
    for one in tensors:
        values = np.array(one["data"], dtype=object)
        assert values.size == int(np.prod(one["shape"]))
        assert not any(isinstance(value, bool) for value in one["data"])
        found[one["name"]] = values.astype(types[one["datatype"]])
    return found


def test_rows_are_those_of_the_result(api: Any, gnn: str, dataset: str) -> None:
    """A graph without a counterfactual has the figures of the unchanged graph."""
    posted = api.client.post(
        "/v1/explanations",
        json={
            "kind": "counterfactual", "gnn": gnn, "dataset": dataset, **SEARCH,
            "graphs": [ring(6), ring(3)], "constraints": {"max_edits": 1},
        },
    ).json()  # fmt: skip
    early = api.client.get(f"/v1/explanations/{posted['id']}/trustyai")
    assert early.status_code == 409
    api.work()
    result = api.client.get(f"/v1/explanations/{posted['id']}").json()["result"]
    answer = api.client.get(f"/v1/explanations/{posted['id']}/trustyai?data_tag=TRAINING")
    assert answer.status_code == 200, answer.text
    upload = answer.json()
    check(upload, UPLOAD)
    assert upload["model_name"] == "edges-v1-explanations-without-typicality"
    assert upload["response"]["model_name"] == upload["model_name"]
    assert upload["data_tag"] == "TRAINING"
    inputs, outputs = columns(upload["request"]["inputs"]), columns(upload["response"]["outputs"])
    best = result["answers"][0]["counterfactuals"][0]
    assert list(inputs["node_count"]) == [6, 3]
    assert list(inputs["edge_count"]) == [6, 3]
    assert list(inputs["predicted_class"]) == [0, 0]
    assert list(outputs["validity"]) == [1, 0]
    assert list(outputs["edits"]) == [len(best["edits"]), 0]
    assert list(outputs["modification_ratio"]) == [best["modification_ratio"], 0]
    assert list(outputs["fidelity"]) == [best["fidelity"], 0]
    assert "typicality" not in outputs


def test_typicality_is_a_column_if_it_is_known_for_every_graph(api: Any, gnn: str) -> None:
    """One graph with a counterfactual, one without: the latter has its own typicality."""
    result = api.result()
    posted = api.explanation()
    api.finish_explanation(posted, result)
    upload = api.client.get(f"/v1/explanations/{posted['id']}/trustyai").json()
    check(upload, UPLOAD)
    typicality = columns(upload["response"]["outputs"])["typicality"]
    found, missed = result.answers
    assert list(typicality) == [
        found.counterfactuals[0].typicality.value,
        missed.typicality.value,
    ]
    assert upload["model_name"] == "a_GNN-v1-explanations"
    assert upload["data_tag"] == "d4explain"


@pytest.mark.parametrize("tag", ["TRUSTYAI_X", "", "a b", "x" * 65])
def test_a_tag_that_trustyai_would_refuse_is_refused(api: Any, gnn: str, tag: str) -> None:
    posted = api.explanation()
    answer = api.client.get(f"/v1/explanations/{posted['id']}/trustyai", params={"data_tag": tag})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"] == "data_tag"


def test_a_class_explanation_has_no_rows(api: Any, gnn: str) -> None:
    from d4explain.contracts.results import ClassResult  # noqa: PLC0415
    from service import examples  # noqa: PLC0415

    result = ClassResult.model_validate(examples.CLASS_EXPLANATION["result"])
    posted = api.explanation(kind="class", graph=None, target_class=0)
    api.finish_explanation(posted, result)
    answer = api.client.get(f"/v1/explanations/{posted['id']}/trustyai")
    assert answer.status_code == 409
    assert "class explanation" in answer.json()["detail"]
