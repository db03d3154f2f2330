"""Questions about an explained graph that a worker answers at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.flows.api_flow import ApiFlow, assert_refused
from tests.unit.flows.test_search import SPEC, edge_counter, ring


@pytest.fixture(scope="module")
def flow(deployed: Callable[..., Any]) -> ApiFlow:
    flow = ApiFlow(deployed())
    flow.gnn = flow.register("edges", {**SPEC, "class_names": ["few", "many"]}, edge_counter(18.5))[
        "id"
    ]
    flow.dataset = flow.create_dataset([ring(nodes) for nodes in (4, 5, 6, 7, 8)])["id"]
    return flow


@pytest.fixture(scope="module")
def explanation(flow: ApiFlow) -> dict[str, Any]:
    return flow.explain(graph=ring(6), explainer="search")


def ask(flow: ApiFlow, explanation: dict[str, Any], **body: Any) -> Any:
    return flow.client.post(f"/v1/explanations/{explanation['id']}/what-if", json=body)


def test_the_edits_of_an_answer_give_its_prediction(
    flow: ApiFlow, explanation: dict[str, Any]
) -> None:
    flow.assert_what_if_agrees(explanation)


def test_each_toggle_adds_or_removes_an_edge(flow: ApiFlow, explanation: dict[str, Any]) -> None:
    """The GNN says `many` above 18.5 of nodes + 2 · edges: a ring of 6 has 18."""
    nothing = ask(flow, explanation, toggles=[]).json()
    assert (nothing["prediction"]["class_name"], nothing["edges"]) == ("few", 6)
    added = ask(flow, explanation, toggles=[["n0", "n2"]]).json()
    assert (added["prediction"]["class_name"], added["edges"]) == ("many", 7)
    moved = ask(flow, explanation, toggles=[["n0", "n2"], ["n1", "n0"]]).json()
    assert (moved["prediction"]["class_name"], moved["edges"]) == ("few", 6)
    twice = ask(flow, explanation, toggles=[["n0", "n2"], ["n2", "n0"]]).json()
    assert twice == nothing


def test_another_version_is_asked_about_the_same_graph(
    flow: ApiFlow, explanation: dict[str, Any]
) -> None:
    """The next version says `many` above 14.5 only: to it, the ring of 6 has many edges already."""
    named = {**SPEC, "class_names": ["few", "many"]}
    next_version = flow.register("edges", named, edge_counter(14.5))
    for reference in (next_version["id"], "edges@2"):
        asked = ask(flow, explanation, toggles=[], gnn=reference)
        assert asked.status_code == 200, asked.text
        assert asked.json()["prediction"]["class_name"] == "many"
    removed = ask(flow, explanation, toggles=[["n0", "n1"], ["n1", "n2"]], gnn="edges@2").json()
    assert (removed["prediction"]["class_name"], removed["edges"]) == ("few", 4)
    assert ask(flow, explanation, toggles=[]).json()["prediction"]["class_name"] == "few"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"features": 2}, "has 2 features per node"),
        ({"classes": 3}, "has 3 classes"),
    ],
)
def test_a_gnn_for_other_graphs_is_not_asked(
    flow: ApiFlow, explanation: dict[str, Any], spec: dict[str, Any], message: str
) -> None:
    other = flow.api.gnn(**spec)
    assert_refused(ask(flow, explanation, toggles=[], gnn=other), "/gnn", message)


def test_an_unknown_gnn_is_not_asked(flow: ApiFlow, explanation: dict[str, Any]) -> None:
    assert_refused(ask(flow, explanation, toggles=[], gnn="nobody"), "/gnn", "nobody", status=404)


def test_nothing_is_stored(flow: ApiFlow, explanation: dict[str, Any]) -> None:
    before = flow.api.written()
    assert ask(flow, explanation, toggles=[["n0", "n2"]]).status_code == 200
    assert flow.client.get(f"/v1/explanations/{explanation['id']}/nearest").status_code == 200
    assert flow.api.written() == before


@pytest.mark.parametrize(
    ("body", "pointer", "message"),
    [
        ({"toggles": [["n0", "x"]]}, "/toggles/0/1", "'x', which is no node"),
        ({"toggles": [["n0", "n1"], ["n2", "n2"]]}, "/toggles/1", "to itself"),
        ({"toggles": [["n0"]]}, "/toggles/0", "2"),
        ({"toggles": [], "graph": 1}, "/graph", "is 1; the result has the graphs 0"),
        ({}, "/toggles", "required"),
    ],
)
def test_invalid_changes_are_refused(
    flow: ApiFlow, explanation: dict[str, Any], body: Any, pointer: str, message: str
) -> None:
    assert_refused(ask(flow, explanation, **body), pointer, message)


def test_an_unfinished_explanation_has_no_graph_to_change(flow: ApiFlow) -> None:
    posted = flow.post_explanation(graph=ring(5), explainer="search").json()
    assert ask(flow, posted, toggles=[]).status_code == 409
    flow.work()


def test_a_class_has_no_graph_to_change(flow: ApiFlow) -> None:
    found = flow.explain(kind="class", target_class=1, preset="fast")
    answer = ask(flow, found, toggles=[])
    assert answer.status_code == 409
    assert "explains a class" in answer.json()["detail"]


def test_the_nearest_real_graph_of_the_new_class(
    flow: ApiFlow, explanation: dict[str, Any]
) -> None:
    """Rings of 7 and 8 nodes are `many`. The nodes of all rings look alike, so counts decide."""
    found = flow.client.get(f"/v1/explanations/{explanation['id']}/nearest").json()
    assert found["target_class"] == 1
    assert found["compared_count"] == 2
    near = found["nearest"]
    assert near["position"] == 3  # the ring of 7
    assert len(near["graph"]["nodes"]) == 7
    assert near["prediction"]["class_name"] == "many"
    assert found["distance"] == pytest.approx(1 - 6 / 7)
    own = flow.client.get(f"/v1/explanations/{explanation['id']}/nearest?target_class=0").json()
    assert (own["nearest"]["position"], own["distance"]) == (2, 0)


def test_the_nearest_graph_says_what_it_cannot_answer(
    flow: ApiFlow, explanation: dict[str, Any]
) -> None:
    path = f"/v1/explanations/{explanation['id']}/nearest"
    answer = flow.client.get(f"{path}?target_class=2")
    assert answer.status_code == 422
    assert "classes 0 to 1" in answer.text
    small = flow.create_dataset([ring(4), ring(5)], name="small")["id"]
    asked = flow.explain(graph=ring(6), explainer="search", dataset=small)
    found = flow.client.get(f"/v1/explanations/{asked['id']}/nearest").json()
    assert (found["nearest"], found["distance"], found["compared_count"]) == (None, None, 0)
    assert flow.client.delete(f"/v1/datasets/{small}").status_code == 204
    gone = flow.client.get(f"/v1/explanations/{asked['id']}/nearest")
    assert gone.status_code == 409
    assert small in gone.json()["detail"]
