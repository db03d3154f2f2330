"""Witnesses, judges and verdicts over HTTP, with the real handlers and few witnesses."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.job_states import JobKind
from d4explain.gnn.errors import RefusedError
from models.witnesses import witness_set
from models.witnesses.architectures import Architecture
from models.witnesses.witness_set import Role, WitnessPlan
from service.submission import judges
from tests.unit.flows.api_flow import assert_refused
from worker.execution.handler_api import HandlerContext, HandlerOutput
from worker.handlers.witnesses import handle_witnesses
from worker.loading.library import Library

torch.set_num_threads(1)
SPEC = {
    "features": 1,
    "classes": 2,
    "layers": [
        {"type": "gin", "out": 2, "hidden": 2},
        {"type": "pool", "op": "sum"},
        {"type": "linear", "out": 2},
    ],
}
NODE_SPEC = {**SPEC, "task": "node", "layers": [SPEC["layers"][0], SPEC["layers"][2]]}
QUICK = (
    WitnessPlan(Role.SELECTION, Architecture.GIN, 1),
    WitnessPlan(Role.JUDGE, Architecture.GIN, 2),
    WitnessPlan(Role.JUDGE, Architecture.GCN, 3),
)


def edge_counter(threshold: float, classes: int = 2) -> bytes:
    """Weights of a GNN whose class is 1 if nodes + 2·edges > threshold."""
    rows = [[0.0, 0.0], [0.5, 0.5], [0.0, 0.0]][:classes]
    return save(
        {
            "layers.0.conv.eps": torch.zeros(1),
            "layers.0.conv.nn.0.weight": torch.ones(2, 1),
            "layers.0.conv.nn.0.bias": torch.zeros(2),
            "layers.0.conv.nn.2.weight": torch.eye(2),
            "layers.0.conv.nn.2.bias": torch.zeros(2),
            "layers.2.linear.weight": torch.tensor(rows),
            "layers.2.linear.bias": torch.tensor([0.0, -threshold, -99.0][:classes]),
        }
    )


def degree_counter(threshold: float) -> bytes:
    """Weights of a node classifier whose class is 1 if 1 + degree > threshold."""
    tensors = load(edge_counter(threshold))
    return save({name.replace("layers.2", "layers.1"): value for name, value in tensors.items()})


def ring(nodes: int, chords: int = 0) -> dict[str, Any]:
    """A ring with some chords; the label is the class of `edge_counter(20.5)`."""
    ends = [(node, (node + 1) % nodes) for node in range(nodes)]
    inside = [pair for pair in combinations(range(nodes), 2) if 1 < pair[1] - pair[0] < nodes - 1]
    edges = [*ends, *inside[:chords]]
    return {
        "edge_index": [[one for one, _ in edges], [other for _, other in edges]],
        "num_nodes": nodes,
        "node_ids": [f"n{node}" for node in range(nodes)],
        "y": [int(nodes + 2 * len(edges) > 20.5)],
    }


@pytest.fixture(scope="module")
def api(deployed: Callable[..., Any]) -> Any:
    return deployed()


@pytest.fixture(scope="module")
def library(api: Any) -> Library:
    return Library(api.store.artifacts, torch.device("cpu"))


def registered(api: Any, name: str, spec: dict[str, Any], weights: bytes) -> str:
    answer = api.client.post(
        "/v1/gnns",
        data={"name": name, "spec": json.dumps(spec)},
        files={"weights": ("w", weights)},
        headers={"Prefer": "respond-async"},
    )
    assert answer.status_code == 202, answer.text
    api.work()
    return str(answer.json()["id"])


@pytest.fixture(scope="module")
def inputs(api: Any) -> dict[str, str]:
    """Ids of a GNN that counts edges and of 128 labelled rings."""
    gnn = registered(api, "edges", SPEC, edge_counter(20.5))
    graphs = [ring(nodes, chords) for nodes in (5, 6, 7, 8) for chords in (0, 1, 2, 3)] * 8
    dataset = api.client.post("/v1/datasets", json={"name": "rings", "graphs": graphs})
    return {"gnn": gnn, "dataset": dataset.json()["id"]}


@pytest.fixture
def post(api: Any, inputs: dict[str, str]) -> Callable[..., Any]:
    def send(query: str = "", **body: Any) -> Any:
        asked = {"kind": "counterfactual", "explainer": "search", **inputs, "graph": ring(6, 1)}
        asked = {name: value for name, value in {**asked, **body}.items() if value is not None}
        return api.client.post(f"/v1/explanations{query}", json=asked)

    return send


@pytest.fixture
def explain(api: Any, library: Library, post: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    def run(**body: Any) -> dict[str, Any]:
        answer = post(**body)
        assert answer.status_code == 202, answer.text
        api.work(library, {JobKind.WITNESSES: partial(handle_witnesses, plans=QUICK)})
        found: dict[str, Any] = api.client.get(answer.headers["location"]).json()
        assert found["state"] == "succeeded", found["job"]["error"]
        result: dict[str, Any] = found["result"]
        CounterfactualResult.model_validate(result)
        return result

    return run


@pytest.fixture(scope="module")
def first(api: Any, inputs: dict[str, str]) -> dict[str, Any]:
    """The first explanation, which starts the training of the witnesses, before any work."""
    body = {"kind": "counterfactual", "explainer": "search", **inputs, "graph": ring(6, 1)}
    estimated = api.client.post("/v1/explanations?dry_run=true", json=body).json()
    assert (estimated["trains_denoiser"], estimated["trains_witnesses"]) == (False, True)
    document: dict[str, Any] = api.client.post("/v1/explanations", json=body).json()
    return document


def test_believable_answers_wait_for_witnesses_and_are_judged(
    api: Any,
    first: dict[str, Any],
    post: Callable[..., Any],
    explain: Callable[..., dict[str, Any]],
) -> None:
    (training,) = api.queued("witnesses")
    assert first["job"]["waiting_for"] == training
    listed = api.client.get(f"/v1/jobs/{training}").json()
    assert (listed["kind"], listed["queue"]) == ("witnesses", "train")
    assert listed["subject"]["witness_set"] == first["job"]["subject"]["witness_set"]
    assert 'd4_jobs{kind="witnesses",state="queued"} 1.0' in api.client.get("/metrics").text

    result = explain()
    ended = api.client.get(f"/v1/jobs/{training}").json()
    assert (ended["state"], ended["progress"]["phase"]) == ("succeeded", "training witnesses")
    assert [judge["architecture"] for judge in result["judges"]] == ["gin", "gcn"]
    assert {judge["labels"] for judge in result["judges"]} == {"true"}
    assert all(judge["agreement"] > 0.9 and judge["used"] for judge in result["judges"])
    assert result["unjudged_reason"] is None

    (answer,) = result["answers"]
    assert answer["found"]
    best = answer["counterfactuals"][0]
    # 6 + 2·7 < 20.5 < 6 + 2·8: one more edge flips the GNN and everybody who counts edges.
    assert [edit["action"] for edit in best["edits"]] == ["add"]
    assert (best["aim"], best["verdict"], best["unseen"]) == ("believable", "meaningful", [])
    assert best["transfers"] == {"shared": 2, "agreeing": 2, "asked": 2}
    order = best["order"]
    assert (order["edits"], order["unseen"], order["convinced"], order["witnesses"]) == (1, 0, 1, 1)
    assert order["reason"].startswith("First")
    (beside,) = answer["minimal"]
    assert (beside["aim"], len(beside["edits"])) == ("minimal", 1)
    assert result["summary"]["verdicts"] == {"meaningful": 1, "brittle": 0, "unjudged": 0}
    assert result["summary"]["transfer_ratio"] == 1.0
    assert result["receipt"]["witnesses_sha256"]
    assert result["receipt"]["witnesses_key"]
    assert result["receipt"]["config"]["aim"] == "believable"

    drawing = api.client.get(f"/v1/explanations/{first['id']}?format=svg")
    assert "Meaningful counterfactual" in drawing.text
    again = post().json()
    assert again["job"]["waiting_for"] is None  # the witnesses are ready
    assert post("?dry_run=true").json()["trains_witnesses"] is False


def test_an_explanation_waits_for_denoiser_and_witnesses(
    explain: Callable[..., dict[str, Any]],
) -> None:
    quick = {"steps": 8, "hidden": 4, "blocks": 1}
    result = explain(explainer="d4", denoiser=quick)
    assert result["receipt"]["denoiser_sha256"]
    assert result["receipt"]["witnesses_sha256"]
    assert result["answers"][0]["counterfactuals"][0]["verdict"] == "meaningful"


def test_minimal_answers_are_judged_too(explain: Callable[..., dict[str, Any]]) -> None:
    result = explain(aim="minimal")
    (answer,) = result["answers"]
    assert answer["minimal"] == []
    assert {found["aim"] for found in answer["counterfactuals"]} == {"minimal"}
    assert answer["counterfactuals"][0]["transfers"]["asked"] == 2


def test_both_aims_give_two_lists(explain: Callable[..., dict[str, Any]]) -> None:
    (answer,) = explain(aim="both", alternatives=3)["answers"]
    (minimal,) = explain(aim="minimal", alternatives=3)["answers"]
    assert {found["aim"] for found in answer["counterfactuals"]} == {"believable"}
    assert [found["edits"] for found in answer["minimal"]] == [
        found["edits"] for found in minimal["counterfactuals"]
    ]


def test_minimal_answers_without_judges_wait_for_nothing(
    api: Any, inputs: dict[str, str], post: Callable[..., Any], explain: Callable[..., Any]
) -> None:
    other = api.client.post(
        "/v1/datasets",
        json={"name": "other", "graphs": [ring(7, chords % 4) for chords in range(120)]},
    ).json()["id"]
    posted = post(aim="minimal", judges="none", dataset=other).json()
    assert posted["job"]["waiting_for"] is None
    assert posted["job"]["subject"]["witness_set"] is None
    assert api.queued("witnesses") == []
    result = explain(aim="minimal", judges="none", dataset=other)
    (answer,) = result["answers"]
    assert {found["verdict"] for found in answer["counterfactuals"]} == {"unjudged"}
    assert result["judges"] == []
    assert "no judges" in result["unjudged_reason"]
    assert result["summary"]["transfer_ratio"] is None
    # Believable answers need witnesses for the search, even if nobody judges.
    assert post(judges="none", dataset=other).json()["job"]["waiting_for"] is not None
    (training,) = api.queued("witnesses")
    api.client.post(f"/v1/jobs/{training}/cancel")


def test_named_judges_judge_besides_the_witnesses(
    api: Any, explain: Callable[..., dict[str, Any]]
) -> None:
    """One judge flips at another number of edges; the other one rarely agrees with the GNN."""
    later = registered(api, "later", SPEC, edge_counter(22.5))
    rarely = registered(api, "rarely", SPEC, edge_counter(29.0))
    result = explain(judges=["later", rarely])
    assert [judge["gnn"] for judge in result["judges"]] == [None, None, later, rarely]
    by_gnn = {judge["gnn"]: judge for judge in result["judges"]}
    graphs = [ring(nodes, chords) for nodes in (5, 6, 7, 8) for chords in (0, 1, 2, 3)]
    sizes = [graph["num_nodes"] + 2 * len(graph["edge_index"][0]) for graph in graphs]
    agreeing = sum((size > 20.5) == (size > 22.5) for size in sizes) / len(sizes)
    assert by_gnn[later]["agreement"] == agreeing >= 0.7
    assert by_gnn[later]["used"]
    assert by_gnn[rarely]["agreement"] < 0.7
    assert not by_gnn[rarely]["used"]
    best = result["answers"][0]["counterfactuals"][0]
    assert best["transfers"] == {"shared": 2, "agreeing": 3, "asked": 3}
    assert best["verdict"] == "meaningful"


def test_named_judges_alone_may_call_an_answer_brittle(
    api: Any, explain: Callable[..., dict[str, Any]]
) -> None:
    small = api.client.post(
        "/v1/datasets", json={"name": "small", "graphs": [ring(6, chords) for chords in range(4)]}
    ).json()["id"]
    registered(api, "stubborn", SPEC, edge_counter(22.5))
    result = explain(judges=["stubborn"], dataset=small)
    best = result["answers"][0]["counterfactuals"][0]
    assert (best["verdict"], best["transfers"]) == (
        "brittle",
        {"shared": 0, "agreeing": 1, "asked": 1},
    )
    assert result["unjudged_reason"] is None
    assert result["summary"]["transfer_ratio"] == 0.0


def test_a_deleted_judge_is_reported(api: Any, post: Callable[..., Any], library: Library) -> None:
    judge = registered(api, "short-lived", SPEC, edge_counter(24.5))
    answer = post(judges=[judge])
    assert api.client.delete(f"/v1/gnns/{judge}").status_code == 204
    api.work(library)
    result = api.client.get(answer.headers["location"]).json()["result"]
    assert f"the judge {judge} was deleted" in result["warnings"]
    assert len(result["judges"]) == 2


@pytest.mark.parametrize(
    ("spec", "weights", "message"),
    [
        (
            {**SPEC, "classes": 3, "layers": [*SPEC["layers"][:2], {"type": "linear", "out": 3}]},
            edge_counter(9.5, 3),
            "3 classes",
        ),
        (NODE_SPEC, degree_counter(9.5), "does not classify graphs"),
    ],
)
def test_judges_must_fit_the_gnn(
    api: Any, post: Callable[..., Any], spec: dict[str, Any], weights: bytes, message: str
) -> None:
    judge = registered(api, f"judge {message}".replace(" ", "-"), spec, weights)
    assert_refused(post(judges=[judge]), "/judges/0", message)


def test_a_gnn_cannot_judge_itself_and_unknown_judges_are_named(
    post: Callable[..., Any], inputs: dict[str, str]
) -> None:
    assert_refused(post(judges=["edges"]), "/judges/0", "cannot judge itself")
    assert_refused(post(judges=["nobody"]), "/judges/0", "nobody", status=404)
    assert post(judges="all").status_code == 422


@pytest.mark.parametrize("aim", ["believable", "both"])
def test_the_papers_sampler_has_minimal_answers_only(post: Callable[..., Any], aim: str) -> None:
    paper = {"explainer": "d4-paper", "denoiser": {"steps": 8, "hidden": 4, "blocks": 1}}
    assert_refused(post(**paper, aim=aim), "/aim", "'d4-paper' accepts 'minimal' only")
    assert_refused(post(**paper, judges=["edges"]), "/judges", "has no judges")


def test_explanations_run_without_witnesses_that_could_not_be_trained(
    api: Any, post: Callable[..., Any], library: Library
) -> None:
    def refuse(_: HandlerContext) -> HandlerOutput:
        raise RefusedError("the features are not finite")

    graphs = [ring(6, chords % 4) for chords in range(110)]
    other = api.client.post("/v1/datasets", json={"name": "other", "graphs": graphs}).json()["id"]
    answer = post(dataset=other)
    api.work(library, {JobKind.WITNESSES: refuse})
    found = api.client.get(answer.headers["location"]).json()
    assert found["state"] == "succeeded"
    result = found["result"]
    assert "the features are not finite" in result["unjudged_reason"]
    best = result["answers"][0]["counterfactuals"][0]
    assert (best["verdict"], best["transfers"]) == ("unjudged", None)
    assert best["aim"] == "believable"  # the patterns of the reference set are known
    assert result["receipt"]["witnesses_sha256"] is None


def test_few_reference_graphs_give_minimal_answers_and_no_verdict(
    api: Any, post: Callable[..., Any], explain: Callable[..., dict[str, Any]]
) -> None:
    few = [ring(6, chords % 4) for chords in range(99)]
    dataset = api.client.post("/v1/datasets", json={"name": "few", "graphs": few}).json()["id"]
    assert post("?dry_run=true", dataset=dataset).json()["trains_witnesses"] is False
    assert post(dataset=dataset).json()["job"]["waiting_for"] is None
    result = explain(dataset=dataset)
    assert "need 100 reference graphs" in result["unjudged_reason"]
    assert any("the answers are minimal" in warning for warning in result["warnings"])
    best = result["answers"][0]["counterfactuals"][0]
    assert (best["aim"], best["verdict"], best["order"]["unseen"]) == ("minimal", "unjudged", None)


def test_unseen_patterns_are_flagged_if_the_request_allows_them(
    explain: Callable[..., dict[str, Any]],
) -> None:
    """No reference graph has a node of degree 1, so removing an edge leaves an unseen degree."""
    asked = {"graph": ring(6, 2), "constraints": {"actions": "remove", "max_ratio": 0.5}}
    (strict,) = explain(**asked)["answers"]
    for found in strict["counterfactuals"]:
        assert found["unseen"] == []
    removing_ring_edges = {**asked["constraints"], "only_seen": False}
    frozen = [["n0", "n2"], ["n0", "n3"]]
    loose = explain(graph=ring(6, 2), constraints={**removing_ring_edges, "frozen_edges": frozen})[
        "answers"
    ][0]
    flagged = loose["counterfactuals"][0]["unseen"]
    assert flagged
    assert {pattern["kind"] for pattern in flagged} <= {"degree", "edge", "neighbours"}
    assert all(node.startswith("n") for pattern in flagged for node in pattern["nodes"])
    assert loose["counterfactuals"][0]["order"]["unseen"] == len(flagged)


def test_features_that_are_no_node_types_are_reported(api: Any, library: Library) -> None:
    """Every node has another measurement, so patterns can only compare degrees."""
    gnn = api.gnn()
    graphs = []
    for number in range(100):
        graph = api.graph()
        for place, node in enumerate(graph["nodes"]):
            node["x"] = [number + place / 10]
        graphs.append(graph)
    dataset = api.client.post("/v1/datasets", json={"name": "measured", "graphs": graphs}).json()
    body = {"kind": "counterfactual", "gnn": gnn, "dataset": dataset["id"], "graph": graphs[0]}
    body |= {"explainer": "search", "aim": "minimal", "judges": "none"}
    answer = api.client.post("/v1/explanations", json=body)
    api.work(library)
    result = api.client.get(answer.headers["location"]).json()["result"]
    assert any("compared by no features" in warning for warning in result["warnings"])


def test_nodes_are_judged_in_their_neighbourhoods(
    api: Any, post: Callable[..., Any], explain: Callable[..., dict[str, Any]]
) -> None:
    """The GNN's class of a node is 1 if its degree is at least 4."""
    tensors = {
        name.replace("layers.2", "layers.1"): value
        for name, value in load(edge_counter(4.5)).items()
    }
    gnn = registered(api, "degrees", NODE_SPEC, save(tensors))
    drawn = torch.randint(120, (2, 210), generator=torch.Generator().manual_seed(0)).T.tolist()
    edges = sorted({(min(pair), max(pair)) for pair in drawn if pair[0] != pair[1]})
    graph = {
        "edge_index": [[one for one, _ in edges], [other for _, other in edges]],
        "num_nodes": 120,
    }
    dataset = api.client.post("/v1/datasets", json={"name": "one", "graphs": [graph]}).json()["id"]
    degree = [sum(node in edge for edge in edges) for node in range(120)]
    node = degree.index(4)
    asked = {"gnn": gnn, "dataset": dataset, "graph": graph, "node": node}
    assert post("?dry_run=true", **asked).json()["trains_witnesses"] is True
    result = explain(**asked, constraints={"max_ratio": 1.0})
    assert {judge["labels"] for judge in result["judges"]} == {"gnn"}  # nodes have no labels
    (answer,) = result["answers"]
    found = (answer["counterfactuals"] or answer["minimal"])[0]
    assert found["transfers"]["asked"] == sum(judge["used"] for judge in result["judges"]) > 0
    assert found["verdict"] in ("meaningful", "brittle")


def test_the_service_and_the_models_agree_on_the_smallest_reference_set() -> None:
    assert judges.MIN_GRAPHS == witness_set.MIN_GRAPHS
