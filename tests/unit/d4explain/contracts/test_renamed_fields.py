"""Requests and results that version 0.1 stored are read by their old field names."""

from __future__ import annotations

import json

from d4explain.contracts.counterfactual_results import (
    CounterfactualResult,
    ExplainedNode,
    Restriction,
)
from d4explain.contracts.probe_reports import SampleFigures
from d4explain.contracts.requests import ClassRequest, CounterfactualRequest
from service import examples
from service.graph_io.chosen_graph import chosen_graph


def test_old_requests_are_read() -> None:
    old = ClassRequest.model_validate_json(
        '{"target_class": 1, "nodes": 6, "examples": 4, "sampler": "paper"}'
    )
    assert old == ClassRequest(target_class=1, node_count=6, example_count=4, explainer="d4-paper")
    assert CounterfactualRequest.model_validate({"graphs": [], "sampler": "guided"}).explainer == (
        "d4"
    )


def test_requests_without_an_aim_were_minimal() -> None:
    old = CounterfactualRequest.model_validate({"graphs": []})
    assert (old.aim, old.judges, old.constraints.only_seen) == ("minimal", [], True)


def test_results_from_before_there_were_witnesses_are_unjudged() -> None:
    document = json.loads(json.dumps(examples.EXPLANATION["result"]))
    (answer,) = document["answers"]
    for name in ("aim", "verdict", "transfers", "unseen", "order"):
        del answer["counterfactuals"][0][name]
    for owner, names in (
        (document, ("judges", "unjudged_reason")),
        (document["summary"], ("verdicts", "transfer_ratio")),
        (document["receipt"], ("witnesses_sha256", "witnesses_key")),
        (answer, ("minimal",)),
    ):
        for name in names:
            del owner[name]
    old = CounterfactualResult.model_validate(document)
    (found,) = old.answers[0].counterfactuals
    assert (found.aim, found.verdict, found.transfers) == ("minimal", "unjudged", None)
    assert (found.unseen, found.order, old.answers[0].minimal) == ([], None, [])
    assert (old.judges, old.summary.verdicts, old.summary.transfer_ratio) == ([], {}, None)
    assert chosen_graph(json.dumps(document).encode(), 0, 0).title == "Counterfactual"
    again = CounterfactualResult.model_validate_json(old.model_dump_json())
    assert again == old


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
