"""Large graphs are uploaded, and their nodes are explained, over HTTP."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

from d4explain import Client
from d4explain.cli.main import main
from d4explain.contracts.requests import CanonicalGraph, CounterfactualRequest
from service.graph_io.large_graph_reader import LargeForm
from service.submission.cost_estimates import case_estimates
from store.database.tables import Dataset
from store.settings import Settings
from tests.unit.flows.api_flow import ApiFlow, assert_refused
from tests.unit.flows.walk_counter import SPEC, THRESHOLD, count_walks, walk_counter_weights

torch.set_num_threads(1)
NPZ, NDJSON = LargeForm.NPZ.value, LargeForm.NDJSON.value


@pytest.fixture(scope="module")
def flow(shared_api: Any) -> ApiFlow:
    """An API and a worker with low limits, so that small graphs count as large."""
    training = {"steps": 12, "hidden": 4, "blocks": 1}
    return ApiFlow(shared_api, denoiser=training, neighbourhood_nodes=12, exact_nodes=16)


@pytest.fixture(scope="module")
def walk_counter(flow: ApiFlow) -> str:
    """The id of a registered node classifier."""
    gnn = flow.register("walks", SPEC, walk_counter_weights())
    assert gnn["state"] == "ready"
    return str(gnn["id"])


def upload(flow: ApiFlow, body: bytes | Iterator[bytes], form: str = NDJSON, **headers: str) -> Any:
    return flow.client.post(
        "/v1/datasets/large?name=web", content=body, headers={"Content-Type": form, **headers}
    )


def test_an_upload_in_chunks_is_stored_once_per_idempotency_key(flow: ApiFlow) -> None:
    lines = [b'{"x": [[1.0], [2.0]], ', b'"edge_index": [[0], [1]]}\n', b'{"x": [[3.0]]}']
    key = {"Idempotency-Key": "large-1"}
    answer = upload(flow, iter(lines), **key)
    assert answer.status_code == 201, answer.text
    found = answer.json()
    assert (found["large"], found["graph_count"], found["features"]) == (True, 1, 1)
    assert (found["max_nodes"], found["mean_edges"]) == (3, 1.0)
    again = upload(flow, b"".join(lines), **key)
    assert again.json()["id"] == found["id"]
    assert again.headers["idempotency-replayed"] == "true"
    assert upload(flow, b"other", **key).status_code == 422
    assert flow.client.get(answer.headers["location"]).json() == found


def test_invalid_uploads_are_refused_and_write_nothing(flow: ApiFlow) -> None:
    before = flow.api.written()
    assert upload(flow, b"{}", "application/json").status_code == 415
    parquet = upload(flow, b"PAR1", "application/vnd.apache.parquet")
    assert parquet.status_code == 415
    assert "d4explain upload" in parquet.json()["detail"]
    documentation = flow.client.get("/openapi.json").json()["paths"]["/v1/datasets/large"]["post"]
    assert "d4explain upload" in documentation["description"]
    compressed = upload(flow, b"{}", NDJSON, **{"Content-Encoding": "gzip"})
    assert "Parquet" not in compressed.json()["detail"]
    without_name = flow.client.post(
        "/v1/datasets/large", content=b"{}", headers={"Content-Type": NDJSON}
    )
    assert without_name.status_code == 422
    assert upload(flow, b'{"edge_index": [[0], [0]]}').status_code == 422
    assert flow.api.written() == before


def star_with_path_and_ring() -> nx.Graph:
    """A star with centre 0 and 40 leaves, a path of 10 nodes at one leaf, a ring at its end."""
    graph = nx.star_graph(40)
    graph.add_edges_from(pairwise([40, *range(41, 51)]))
    graph.add_edges_from([*pairwise(range(50, 56)), (55, 50)])
    return graph


def npz_of(graph: nx.Graph) -> bytes:
    file = io.BytesIO()
    index = np.array(graph.edges).T
    np.savez_compressed(file, edge_index=index, x=np.ones((len(graph), 1)))
    return file.getvalue()


@pytest.mark.parametrize("explainer", ["d4", "search"])
def test_nodes_of_a_large_graph_are_explained(
    flow: ApiFlow, walk_counter: str, explainer: str
) -> None:
    graph = star_with_path_and_ring()
    answer = upload(flow, npz_of(graph), NPZ)
    assert answer.status_code == 201, answer.text
    dataset = answer.json()
    nodes = [46, 50, 20]
    result = flow.explain(
        gnn=walk_counter,
        dataset=dataset["id"],
        nodes=nodes,
        constraints={"max_ratio": 1.0},
        explainer=explainer,
    )["result"]
    walks = count_walks(graph)
    for node, one in zip(nodes, result["answers"], strict=True):
        assert one["node"]["id"] == node
        assert one["graph"]["nodes"][0]["id"] == node
        probability = 1 / (1 + np.exp(THRESHOLD - walks[node]))
        assert one["prediction"]["probabilities"][1] == pytest.approx(probability, rel=1e-4)
        for counterfactual in one["counterfactuals"]:
            edited = graph.copy()
            for edit in counterfactual["edits"]:
                change = edited.add_edge if edit["action"] == "add" else edited.remove_edge
                change(edit["source"], edit["target"])
            after = count_walks(edited)[node] > THRESHOLD
            assert after == (counterfactual["prediction"]["predicted_class"] == 1)
            assert after != (walks[node] > THRESHOLD)
    path, ring, leaf = (one["node"] for one in result["answers"])
    assert (path["node_count"], path["edge_count"]) == (5, 4)
    assert (path["complete"], path["exact"]) == (True, True)
    assert ring["complete"]
    # Only the nearest of the nodes around the centre are edited; the whole graph is evaluated.
    assert (leaf["node_count"], leaf["complete"], leaf["exact"]) == (12, False, True)
    assert any("1 of 3 nodes are too large" in warning for warning in result["warnings"])
    assert result["receipt"]["dataset_sha256"] == dataset["sha256"]
    assert any(one["found"] for one in result["answers"])


def test_nodes_and_gnns_that_do_not_fit_are_refused(flow: ApiFlow, walk_counter: str) -> None:
    dataset = upload(flow, b'{"edge_index": [[0, 1], [1, 2]]}').json()["id"]
    for body, pointer in (
        ({"node": 3}, "/node"),
        ({"node": "0"}, "/node"),
        ({"nodes": [0, 0]}, "/nodes/1"),
        ({"nodes": [0, 1, 2, 0, 1]}, "/nodes"),
        ({}, "/node"),
        ({"node": 0, "constraints": {"frozen_nodes": [9]}}, "/constraints/frozen_nodes/0"),
        ({"node": 0, "constraints": {"valid_molecule": True}}, "/constraints/valid_molecule"),
    ):
        answer = flow.post_explanation(gnn=walk_counter, dataset=dataset, **body)
        assert_refused(answer, pointer)
    graph_classifier = flow.post_explanation(gnn=flow.api.gnn(), dataset=dataset, node=0)
    assert graph_classifier.status_code == 422
    assert "one large graph" in graph_classifier.json()["detail"]
    small_set = flow.post_explanation(gnn=walk_counter, dataset=flow.api.dataset(), node=0)
    assert_refused(small_set, "/graph")


def test_the_command_line_recognises_the_format_by_the_file_name(
    served: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "web.npz", edge_index=np.array([[0, 1], [1, 2]]))
    url = str(served.client.base_url)
    with pytest.raises(SystemExit) as ended:
        main(("upload", str(tmp_path / "web.npz"), "--name", "web", "--url", url))
    assert not ended.value.code
    assert "3 nodes, 2 edges" in capsys.readouterr().out
    with Client(url) as client:
        (dataset,) = client.datasets()
        assert (dataset.name, dataset.large, dataset.max_nodes) == ("web", True, 3)


def path_graph(nodes: int) -> dict[str, Any]:
    return {"edge_index": np.array(nx.path_graph(nodes).edges).T.tolist(), "x": [[1.0]] * nodes}


def test_a_dry_run_estimates_the_cost_and_writes_nothing(flow: ApiFlow) -> None:
    gnn, dataset = flow.api.gnn(), flow.api.dataset()
    before = flow.api.written()
    body = {"kind": "counterfactual", "gnn": gnn, "dataset": dataset, "graph": path_graph(20)}
    answer = flow.client.post("/v1/explanations?dry_run=true", json=body)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["dry_run"], found["trains_denoiser"]) == (True, True)
    (case,) = found["cases"]
    assert case == {**case, "mode": "exact", "node_count": 20, "edge_count": 19, "pair_count": 190}
    assert flow.api.written() == before
    posted = flow.post_explanation(
        gnn=gnn, dataset=dataset, graph=path_graph(20), denoiser={"steps": 5}
    )
    flow.api.finish(posted.json()["job"]["waiting_for"])
    config = {"denoiser": {"steps": 5}}
    again = flow.client.post("/v1/explanations?dry_run=true", json={**body, **config})
    assert again.json()["trains_denoiser"] is False
    search = flow.client.post("/v1/explanations?dry_run=true", json={**body, "explainer": "search"})
    assert (found["provisional"], found["denoiser_seconds"] > 0) == (True, True)
    assert search.json() == {
        **found,
        "trains_denoiser": False,
        "denoiser_seconds": 0.0,
        "total_seconds": found["seconds"],
        "provisional": False,
    }
    class_request = {"kind": "class", "gnn": gnn, "dataset": dataset, "target_class": 0}
    refused = flow.client.post("/v1/explanations?dry_run=true", json=class_request)
    assert refused.status_code == 422


def test_estimates_depend_on_the_mode() -> None:
    limits = Settings(exact_nodes=10, max_neighbourhood_nodes=30)
    row = Dataset(max_nodes=1_000_000, large=True)
    request = CounterfactualRequest(graphs=[], nodes=[1, 2])
    around = case_estimates(request, row, limits)
    assert [(case.mode, case.node_count) for case in around] == [("neighbourhood", 30)] * 2
    graph = CanonicalGraph(
        node_ids=list(range(50)), x=[[1.0]] * 50, edges=list(pairwise(range(50)))
    )
    (case,) = case_estimates(CounterfactualRequest(graphs=[graph]), row, limits)
    assert (case.mode, case.pair_count) == ("restricted", 8 * 49)


def test_a_graph_that_is_too_large_is_refused_with_an_estimate(flow: ApiFlow) -> None:
    answer = flow.post_explanation(
        gnn=flow.api.gnn(), dataset=flow.api.dataset(), graph=path_graph(21)
    )
    assert_refused(answer, "/graph/x", "21 nodes; this deployment accepts at most 20")
    assert_refused(answer, "/graph/x", "MB and")


@pytest.mark.parametrize("explainer", ["d4", "search"])
def test_a_graph_above_the_exact_limit_is_edited_at_candidate_pairs(
    flow: ApiFlow, explainer: str
) -> None:
    graph = nx.barabasi_albert_graph(20, 1, seed=0)
    body = {"edge_index": np.array(graph.edges).T.tolist(), "x": [[1.0]] * 20}
    dataset = flow.create_dataset([body, path_graph(20), path_graph(18)])["id"]
    result = flow.explain(gnn=flow.api.gnn(), dataset=dataset, graph=body, explainer=explainer)[
        "result"
    ]
    (one,) = result["answers"]
    assert one["restricted"]["pair_count"] == 190
    assert 19 <= one["restricted"]["candidate_count"] <= 8 * 19
    assert any("1 of 1 graphs are too large" in warning for warning in result["warnings"])
    assert result["receipt"]["config"]["candidates"]["above_nodes"] == 16
    (small,) = flow.answers(
        gnn=flow.api.gnn(), dataset=dataset, graph=path_graph(16), explainer=explainer
    )
    assert small["restricted"] is None
