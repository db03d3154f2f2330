from __future__ import annotations

import json

import numpy as np
import pytest
import safetensors.numpy


def form(api, **changes):
    parts = {
        "name": (None, "motifs"),
        "spec": (None, api.spec().model_dump_json(), "application/json"),
        "weights": ("gnn.safetensors", api.weights()),
    }
    return {name: part for name, part in {**parts, **changes}.items() if part is not None}


def register(api, headers=None, **changes):
    headers = {"Prefer": "respond-async", **(headers or {})}
    return api.client.post("/v1/gnns", files=form(api, **changes), headers=headers)


def test_a_gnn_with_a_slow_probe_is_accepted(api):
    answer = register(api)

    assert answer.status_code == 202
    gnn = answer.json()
    assert answer.headers["location"] == f"/v1/gnns/{gnn['id']}"
    assert int(answer.headers["retry-after"]) > 0
    assert answer.headers["preference-applied"] == "respond-async"
    assert (gnn["state"], gnn["report"], gnn["name"]) == ("probing", None, "motifs")
    assert api.queued("probe") == [gnn["job_id"]]


def test_a_gnn_that_passes_within_the_default_wait_is_created(api):
    worker = api.soon(
        lambda: api.finish(api.queued("probe")[0]), when=lambda: bool(api.queued("probe"))
    )
    answer = register(api, headers={"Prefer": ""})
    worker.join()

    assert answer.status_code == 201
    assert answer.json()["state"] == "ready"
    assert answer.json()["report"]["passed"] is True
    assert "preference-applied" not in answer.headers


def test_a_rejected_gnn_is_kept_with_its_report(api):
    worker = api.soon(
        lambda: api.finish(api.queued("probe")[0], "all outputs are equal"),
        when=lambda: bool(api.queued("probe")),
    )
    answer = register(api, headers={"Prefer": "wait=10"})
    worker.join()

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["preference-applied"] == "wait=10"
    problem = answer.json()
    assert problem["type"] == "urn:d4explain:problem:gnn-rejected"
    assert problem["errors"] == [{"pointer": "/weights", "detail": "probe: all outputs are equal"}]
    kept = api.client.get(answer.headers["location"]).json()
    assert kept == problem["gnn"]
    assert kept["state"] == "rejected"


def test_the_spec_may_be_a_file(api):
    spec = ("spec.json", api.spec().model_dump_json().encode(), "application/json")
    assert register(api, spec=spec).status_code == 202


def broken_tensors(api, **changes):
    tensors = safetensors.numpy.load(api.weights())
    return {name: t for name, t in {**tensors, **changes}.items() if t is not None}


BIAS = "layers.2.linear.bias"


@pytest.mark.parametrize(
    ("changes", "pointer", "words"),
    [
        pytest.param({"name": None}, "/name", "is required", id="no name"),
        pytest.param({"name": (None, "")}, "/name", "at least 1", id="empty name"),
        pytest.param({"name": (None, "x" * 201)}, "/name", "at most 200", id="long name"),
        pytest.param({"name": (None, "a\x00b")}, "/name", "control", id="control character"),
        pytest.param({"spec": None}, "/spec", "is required", id="no spec"),
        pytest.param({"spec": (None, "{")}, "/spec", "line 1, column 2", id="spec not JSON"),
        pytest.param(
            {"spec": (None, '{"features":1,"features":1}')}, "/spec", "more than once", id="twice"
        ),
        pytest.param(
            {"spec": (None, '{"features":1,"classes":2,"layers":[{"type":"pickle"},{}]}')},
            "/spec/layers/0",
            "pickle",
            id="unknown layer",
        ),
        pytest.param(
            {"spec": (None, '{"features":9,"classes":2,"layers":[{"type":"pool","op":"sum"},'
                            '{"type":"linear","out":2}]}')},
            "/spec/features",
            "at most 8",
            id="too many features",
        ),
        pytest.param({"weights": None}, "/weights", "is required", id="no weights"),
        pytest.param({"weights": (None, "text")}, "/weights", "a file", id="weights as text"),
        pytest.param(
            {"weights": ("w", b"\x80\x04\x95pickle")}, "/weights", "safetensors", id="pickle"
        ),
        pytest.param({"more": (None, "x")}, "/more", "not a known field", id="unknown field"),
    ],
)  # fmt: skip
def test_bad_forms_are_rejected(api, changes, pointer, words):
    before = api.written()
    answer = register(api, **changes)

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    errors = answer.json()["errors"]
    assert pointer in [error["pointer"] for error in errors]
    assert any(words in error["detail"] for error in errors)
    assert api.written() == before


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({BIAS: None}, "missing: layers.2.linear.bias"),
        ({"layers.9.extra": np.zeros(1, np.float32)}, "unexpected: layers.9.extra"),
        ({BIAS: np.zeros(3, np.float32)}, "layers.2.linear.bias is float32[3], not float32[2]"),
        ({BIAS: np.zeros(2, np.float64)}, "not float32[2]"),
        ({BIAS: np.array([1, np.nan], np.float32)}, "not finite"),
        ({BIAS: np.array([1, np.inf], np.float32)}, "not finite"),
    ],
)
def test_weights_that_do_not_match_the_spec_are_rejected(api, tensors, words):
    before = api.written()
    data = safetensors.numpy.save(broken_tensors(api, **tensors))
    answer = register(api, weights=("w", data))

    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == "/weights"
    assert words in error["detail"]
    assert api.written() == before


def test_a_repeated_field_is_rejected(api):
    files = [*form(api).items(), ("name", (None, "again"))]
    answer = api.client.post("/v1/gnns", files=files)
    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"pointer": "/name", "detail": "is given more than once"}]


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("application/json", b"{}", 415),
        ("multipart/form-data", b"x", 400),
        ("multipart/form-data; boundary=a", b"nothing of the kind", 400),
        ("application/x-www-form-urlencoded", b"name=a", 415),
    ],
)
def test_other_content_types_are_rejected(api, content_type, body, status):
    before = api.written()
    answer = api.client.post("/v1/gnns", content=body, headers={"Content-Type": content_type})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert api.written() == before


def test_the_same_key_registers_once_for_any_form_boundary(api):
    first = register(api, headers={"Idempotency-Key": "k1"})
    again = register(api, headers={"Idempotency-Key": "k1"})

    assert again.json() == first.json()
    assert again.headers["idempotency-replayed"] == "true"
    assert api.written()["gnns"] == 1

    other = register(api, headers={"Idempotency-Key": "k1"}, name=(None, "another"))
    assert other.status_code == 422
    assert other.json()["type"].endswith("idempotency-mismatch")
    assert other.json()["errors"][0]["header"] == "Idempotency-Key"


def test_get_list_and_delete(api):
    ids = [api.gnn() for _ in range(3)]
    assert [gnn["id"] for gnn in api.client.get("/v1/gnns").json()["items"]] == ids[::-1]

    assert api.client.delete(f"/v1/gnns/{ids[0]}").status_code == 204
    gone = api.client.get(f"/v1/gnns/{ids[0]}")
    assert gone.status_code == 404
    assert ids[0] in gone.json()["detail"]


def test_a_gnn_in_use_is_not_deleted(api):
    gnn = api.gnn(state="probing")
    answer = api.client.delete(f"/v1/gnns/{gnn}")
    assert answer.status_code == 409
    assert gnn in answer.json()["detail"]
    assert api.client.get(f"/v1/gnns/{gnn}").status_code == 200


def test_names_are_returned_unchanged(api):
    answer = register(api, name=(None, "Mützen & <Löwen> 🦁"))
    assert answer.json()["name"] == "Mützen & <Löwen> 🦁"
    assert json.loads(answer.content)["name"] == "Mützen & <Löwen> 🦁"
