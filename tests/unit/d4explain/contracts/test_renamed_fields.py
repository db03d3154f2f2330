"""Requests and results that version 0.1 stored are read by their old field names."""

from __future__ import annotations

from d4explain.contracts.probe_reports import SampleFigures
from d4explain.contracts.requests import ClassRequest, CounterfactualRequest
from d4explain.contracts.results import ExplainedNode, Restriction


def test_old_requests_are_read() -> None:
    old = ClassRequest.model_validate_json(
        '{"target_class": 1, "nodes": 6, "examples": 4, "sampler": "paper"}'
    )
    assert old == ClassRequest(target_class=1, node_count=6, example_count=4, explainer="d4-paper")
    assert CounterfactualRequest.model_validate({"graphs": [], "sampler": "guided"}).explainer == (
        "d4"
    )


def test_old_results_are_read_and_written_with_the_new_names() -> None:
    node = ExplainedNode.model_validate(
        {"id": "a", "hops": 2, "nodes": 5, "edges": 4, "frozen_pairs": 3}
    )
    assert node == ExplainedNode(id="a", hops=2, node_count=5, edge_count=4, frozen_pair_count=3)
    restricted = Restriction.model_validate({"candidates": 9, "of_pairs": 45})
    assert restricted.model_dump() == {"candidate_count": 9, "pair_count": 45}
    samples = {"graphs": 2, "nodes": 7, "accuracy": 1.0, "min_accuracy": 0.5, "classes": []}
    assert SampleFigures.model_validate(samples).model_dump() == {
        **{"graph_count": 2, "node_count": 7},
        **{"accuracy": 1.0, "min_accuracy": 0.5, "classes": []},
    }
