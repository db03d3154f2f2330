"""Answers and logs repeat little of what was sent, and nothing of keys, weights and graphs."""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from d4explain.contracts.errors import MAX_SHOWN

if TYPE_CHECKING:
    from conftest import Deployment

# Every part of it is distinct, so a quoted part can be measured.
SECRET = "".join(f"s{number:03d}" for number in range(100))
VALUE = 0.7345019283  # of a feature or a weight
KEY = "d4_" + "k3y" * 20


@pytest.fixture
def paths(shared_api: Deployment) -> list[tuple[str, str]]:
    document = shared_api.client.get("/openapi.json").json()
    return [
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
        if method in ("get", "post", "put", "patch", "delete")
        and not path.endswith("/events")  # a stream
    ]


def places(document: Any) -> list[tuple[Any, Any]]:
    """Every container of a JSON document, with every key in it."""
    if not isinstance(document, dict | list):
        return []
    keys = list(document) if isinstance(document, dict) else list(range(len(document)))
    below = [place for key in keys for place in places(document[key])]
    return [(document, key) for key in keys] + below


def longest_quote(text: str) -> int:
    """The longest part of the secret in a text."""
    text = re.sub(r"\\(.)", r"\1", text)
    for length in range(min(len(SECRET), MAX_SHOWN + 40), 3, -1):
        if any(SECRET[i : i + length] in text for i in range(len(SECRET) - length + 1)):
            return length
    return 0


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """A body with the secret at one place, as a value or as a name, or in place of everything."""
    graph = {
        "nodes": [{"id": "a", "x": [VALUE]}, {"id": "b", "x": [VALUE]}],
        "edges": [{"source": "a", "target": "b"}],
    }
    body: Any = {
        "kind": draw(st.sampled_from(["counterfactual", "class", "other"])),
        "name": "a name",
        "gnn": "gnn_unknown",
        "dataset": "set_unknown",
        "graph": graph,
        "graphs": [graph, {"edge_index": [[0], [1]], "x": [[VALUE], [VALUE]]}],
        "constraints": {"max_edits": 3},
        "denoiser": {"steps": 10},
    }
    container, key = draw(st.sampled_from(places(body)))
    match draw(st.sampled_from(["value", "name", "number", "nothing", "cut off"])):
        case "value":
            container[key] = SECRET
        case "name" if isinstance(container, dict):
            container[SECRET] = container.pop(key)
        case "number":
            container[key] = float(VALUE)
        case "cut off":
            return {"content": json.dumps(body)[: draw(st.integers(1, 500))] + SECRET}
    return {"content": json.dumps(body)}


@pytest.fixture
def answers(shared_api: Deployment, caplog: pytest.LogCaptureFixture) -> Any:
    """Sends a request; returns the text of the answer and of the log."""
    caplog.set_level(logging.DEBUG)

    def send(method: str, path: str, **options: Any) -> str:
        caplog.clear()
        answer = shared_api.client.request(method, path, **options)
        assert answer.status_code < 500, answer.text
        logged = "\n".join(
            f"{record.getMessage()} {record.exc_text or ''}"
            for record in caplog.records
            if record.name.split(".")[0] in ("service", "store")
        )
        return f"{answer.text}\n{answer.headers}\n{logged}"

    return send


QUIET = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@QUIET
@given(data=st.data())
def test_at_most_64_characters_of_a_body_come_back_and_no_value(
    paths: list[tuple[str, str]], answers: Any, data: st.DataObject
) -> None:
    posting = [path for method, path in paths if method == "POST"]
    path = re.sub(r"\{\w+\}", "gnn_unknown", data.draw(st.sampled_from(posting)))
    content = data.draw(requests())["content"]
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    seen = answers("POST", path, content=content, headers=headers)
    assert longest_quote(seen) <= MAX_SHOWN
    assert str(VALUE) not in seen
    assert KEY[10:] not in seen


@QUIET
@given(data=st.data())
def test_at_most_64_characters_of_paths_parameters_and_headers_come_back(
    paths: list[tuple[str, str]], answers: Any, data: st.DataObject
) -> None:
    method, template = data.draw(st.sampled_from(paths))
    in_path = re.sub(r"\{\w+\}", SECRET, template)
    path = re.sub(r"\{\w+\}", "gnn_unknown", template)
    names = ["limit", "cursor", "state", "kind", "format", "graph", "gnn", "name", SECRET]
    parameter = data.draw(st.sampled_from(names))
    headers = ["Idempotency-Key", "Prefer", "Accept", "If-None-Match", "Content-Type", "Host"]
    header = data.draw(st.sampled_from(headers))
    key = {"Authorization": f"Bearer {KEY}"}
    for seen in (
        answers(method, in_path, headers=key),
        answers(method, path, params={parameter: SECRET}, headers=key),
        answers(method, path, headers={**key, header: SECRET}),
    ):
        assert longest_quote(seen) <= MAX_SHOWN, seen
        assert KEY[10:] not in seen


def test_weights_never_come_back(shared_api: Deployment, answers: Any) -> None:
    weights = shared_api.weights(value=VALUE)
    spec = shared_api.spec().model_dump_json()
    kinds = [weights[:-5], weights + SECRET.encode(), SECRET.encode() + weights]
    header = json.dumps({SECRET: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    kinds.append(len(header).to_bytes(8, "little") + header + b"\0" * 4)
    for sent in kinds:
        files = {"spec": spec, "weights": sent}
        seen = answers("POST", "/v1/gnns", data={"name": SECRET[:50]}, files=files)
        assert longest_quote(seen) <= MAX_SHOWN
        assert str(VALUE) not in seen
        assert weights[-16:].hex() not in seen


def test_the_search_for_quotes_finds_one() -> None:
    assert longest_quote(f'there is no "{SECRET[8:90]}"') == 82
    assert longest_quote("nothing of it") == 0
