"""`format=grafana`: the fields of Grafana's node graph panel, and the edits of the answer."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from d4explain.contracts.counterfactual_results import CounterfactualResult
from service import examples
from tests.conftest import Deployment

TEXT = {"type": "string"}
COLOUR = {"type": "string", "pattern": "^#[0-9a-f]{6}$"}
# `NodeGraphDataFrameFieldNames` of @grafana/data 13.2.3; the panel ignores the case of names. A
# node has a `color` or `arc__…` fields, not both.
NODES = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "properties": {
            "id": {"type": "string", "minLength": 1},
            "title": TEXT,
            "subtitle": TEXT,
            "mainstat": {"type": ["string", "number"]},
            "secondarystat": {"type": ["string", "number"]},
            "color": COLOUR,
            "icon": TEXT,
            "noderadius": {"type": "number"},
            "highlighted": {"type": "boolean"},
        },
        "patternProperties": {"^detail__.+$": {"type": ["string", "number"]}},
        "required": ["id"],
        "additionalProperties": False,
    },
}
EDGES = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "id": {"type": "string", "minLength": 1},
            "source": TEXT,
            "target": TEXT,
            "mainstat": {"type": ["string", "number"]},
            "secondarystat": {"type": ["string", "number"]},
            "color": COLOUR,
            "thickness": {"type": "number", "exclusiveMinimum": 0},
            "highlighted": {"type": "boolean"},
            "strokedasharray": TEXT,
        },
        "patternProperties": {"^detail__.+$": {"type": ["string", "number"]}},
        "required": ["id", "source", "target"],
        "additionalProperties": False,
    },
}
FRAMES = {
    "type": "object",
    "properties": {"nodes": NODES, "edges": EDGES},
    "required": ["nodes", "edges"],
    "additionalProperties": False,
}


def lower_case(frame: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As the panel reads names."""
    read = [{name.lower(): value for name, value in row.items()} for row in frame]
    assert [len(row) for row in read] == [len(row) for row in frame]
    return read


@pytest.fixture
def explanation(api: Deployment) -> str:
    """Its counterfactual has no edge b – roof."""
    posted = api.explanation()
    api.finish_explanation(
        posted, CounterfactualResult.model_validate(examples.EXPLANATION["result"])
    )
    return str(posted["id"])


def test_a_node_graph_panel_can_read_the_answer(api: Deployment, explanation: str) -> None:
    answer = api.client.get(f"/v1/explanations/{explanation}?format=grafana")
    assert answer.status_code == 200, answer.text
    frames = {name: lower_case(frame) for name, frame in answer.json().items()}
    faults = Draft202012Validator(FRAMES).iter_errors(frames)
    assert [fault.message for fault in faults] == []
    nodes = [node["id"] for node in frames["nodes"]]
    assert nodes == ["a", "b", "c", "d", "roof", "tail"]
    assert len({edge["id"] for edge in frames["edges"]}) == len(frames["edges"]) == 7
    assert {end for edge in frames["edges"] for end in (edge["source"], edge["target"])} <= set(
        nodes
    )
    [removed] = [edge for edge in frames["edges"] if edge["mainstat"] == "removed"]
    assert {removed["source"], removed["target"]} == {"b", "roof"}
    assert removed["strokedasharray"]
    kept = [edge for edge in frames["edges"] if edge is not removed]
    assert not any(edge["strokedasharray"] for edge in kept)
    assert {edge["color"] for edge in kept}.isdisjoint({removed["color"]})
    assert {node["id"] for node in frames["nodes"] if node["mainstat"] == "edited"} == {"b", "roof"}


def test_the_example_of_the_reference_has_these_fields() -> None:
    frames = {name: lower_case(frame) for name, frame in examples.GRAFANA.items()}
    assert [fault.message for fault in Draft202012Validator(FRAMES).iter_errors(frames)] == []
