"""Graphs above the exact limit, posted over HTTP and explained by a real worker process."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import safetensors.numpy

from d4explain import Client
from d4explain.contracts.counterfactual_results import CounterfactualAnswer, CounterfactualResult
from d4explain.contracts.job_states import GnnState
from store.settings import Settings

if TYPE_CHECKING:
    from tests.processes import EdgeCounter, Stack

NODES = 1100
QUICK = {"steps": 10, "hidden": 4, "blocks": 1}
MANY, FEW = 280, 2  # edges whose removal flips the prediction


def ring_with_chords(chords: int) -> dict[str, Any]:
    """All chords end at node 0."""
    ring = [*pairwise(range(NODES)), (0, NODES - 1)]
    spokes = [(0, node) for node in range(2, NODES - 1)][:chords]
    return {"edge_index": np.array([*ring, *spokes]).T.tolist(), "num_nodes": NODES}


def edges_of(graph: dict[str, Any]) -> set[tuple[int, int]]:
    return set(zip(*graph["edge_index"], strict=True))


HARD, EASY = ring_with_chords(600), ring_with_chords(600 - MANY + FEW)


@pytest.fixture(scope="module")
def deployed_gnn(stack: Stack, edge_counter: EdgeCounter) -> Iterator[tuple[Client, str, str]]:
    """A client, a GNN that counts edges, and a reference set."""
    worker = stack.start_worker()
    service = stack.start_service()
    stack.wait_for(worker)
    weights = safetensors.numpy.load(edge_counter.weights)
    threshold = NODES + 2 * (len(edges_of(HARD)) - MANY) + 1.0
    # Scaled down: the probe rejects a GNN with the same probabilities for all small graphs.
    weights["layers.2.linear.weight"] /= 1000
    weights["layers.2.linear.bias"] = np.array([0.0, -threshold / 1000], np.float32)
    rings = [
        {"edge_index": [list(range(n)), [*range(1, n), 0]], "num_nodes": n} for n in range(4, 9)
    ]
    with Client(service.url) as client:
        gnn = client.register_gnn("edges", edge_counter.spec, safetensors.numpy.save(weights))
        assert gnn.state is GnnState.READY, gnn.report
        yield client, gnn.id, client.create_dataset("rings", rings).id


def explain(
    deployed_gnn: tuple[Client, str, str], *graphs: dict[str, Any], **options: Any
) -> CounterfactualResult:
    client, gnn, dataset = deployed_gnn
    if options.get("explainer") != "search":
        options["denoiser"] = QUICK
    explanation = client.explain_counterfactual(gnn, dataset, graphs, preset="fast", **options)
    result = client.result(explanation, timeout=100)
    assert isinstance(result, CounterfactualResult)
    return result


def check(graph: dict[str, Any], answer: CounterfactualAnswer, needed: int) -> None:
    edges = edges_of(graph)
    assert Settings().exact_nodes < NODES
    assert answer.restricted is not None
    assert len(edges) < answer.restricted.candidate_count <= 8 * len(edges)
    assert answer.prediction.predicted_class == 1
    assert answer.counterfactuals
    for found in answer.counterfactuals:
        assert found.prediction.predicted_class == 0
        removed = {(edit.source, edit.target) for edit in found.edits if edit.action == "remove"}
        assert len(removed) == len(found.edits) == needed
        assert removed <= edges


@pytest.mark.parametrize("explainer", ["d4", "search"])
def test_large_graphs_are_explained_with_few_and_with_hundreds_of_edits(
    deployed_gnn: tuple[Client, str, str], stack: Stack, explainer: str
) -> None:
    children = {child.pid for child in stack.workers[0].children()}
    result = explain(deployed_gnn, EASY, HARD, explainer=explainer)
    easy, hard = result.answers
    check(EASY, easy, FEW)
    check(HARD, hard, MANY)
    assert any("2 of 2 graphs are too large" in warning for warning in result.warnings)
    assert result.receipt.work["cut_by_time_budget"] == 0
    # The pool did not replace any child.
    assert {child.pid for child in stack.workers[0].children()} == children


def test_a_time_budget_ends_the_search_in_a_large_graph(
    deployed_gnn: tuple[Client, str, str],
) -> None:
    result = explain(deployed_gnn, HARD, time_budget=0.2)
    assert result.receipt.work["cut_by_time_budget"] == 1
    assert any("the time budget ended the search" in warning for warning in result.warnings)
    (answer,) = result.answers
    # Counterfactuals found before the deadline are reported, minimal or not.
    for found in answer.counterfactuals:
        assert found.prediction.predicted_class == 0
