"""Comparisons over HTTP: of two explainers, and of GNNs that count edges with other thresholds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from sqlalchemy import select

from store.database.tables.audit import AuditEntry, Source
from tests.unit.flows.test_evaluations import World
from tests.unit.flows.test_transfer import SPEC, edge_counter, registered, ring

torch.set_num_threads(1)
Document = dict[str, Any]


class ComparedWorld(World):
    """Evaluations by search of one GNN, of three equal ones and of a worse one."""

    def __init__(self, api: Any) -> None:
        super().__init__(api)
        sizes = [(n, c) for n in (5, 6, 7) for c in (0, 1, 2, 3)]
        self.test = self.created("more tests", [ring(n, c) for n, c in sizes] * 4)
        self.baseline = self.of(20.5)
        self.equal = [self.of(threshold) for threshold in (20.4, 20.6, 20.3, 20.7, 20.2)]
        self.worse = self.of(60.5)

    def of(self, threshold: float) -> str:
        self.gnn = registered(self.api, f"edges {threshold}", SPEC, edge_counter(threshold))
        return str(self.posted(explainers=["search", "greedy"])["id"])

    def compare(self, **body: Any) -> Document:
        posted = self.api.client.post("/v1/comparisons", json=body)
        assert posted.status_code == 202, posted.text
        self.api.work()
        found: Document = self.api.client.get(posted.headers["location"]).json()
        assert found["state"] == "succeeded", found["job"]["error"]
        return found


@pytest.fixture(scope="module")
def world(deployed: Callable[..., Any]) -> ComparedWorld:
    made = ComparedWorld(deployed())
    made.api.work()
    return made


def test_two_explainers_of_one_gnn(world: ComparedWorld) -> None:
    found = world.compare(
        baseline=world.baseline,
        candidate=world.baseline,
        explainer="search",
        candidate_explainer="greedy",
    )
    result = found["result"]
    assert (result["noise"], result["trainings"], result["agreement"]) == ("instances", 1, None)
    assert result["instances"] == 48
    assert (result["baseline_explainer"], result["candidate_explainer"]) == ("search", "greedy")
    assert result["retrained"] == []
    evaluations = {one["figure"]: one for one in result["figures"]}["gnn_evaluations"]
    assert evaluations["candidate"] != evaluations["baseline"]
    assert result["warnings"] == []


def test_what_workers_store_is_in_the_audit_log(world: ComparedWorld) -> None:
    found = world.compare(
        baseline=world.baseline,
        candidate=world.baseline,
        explainer="greedy",
        candidate_explainer="search",
    )
    stored = {("store_evaluation", world.baseline), ("store_comparison", found["id"])}
    with world.api.store.database.reading() as session:
        entries = session.scalars(select(AuditEntry).where(AuditEntry.source == Source.WORKER))
        assert stored <= {(entry.action, entry.resource) for entry in entries}


def test_a_worse_gnn_against_retrained_ones(world: ComparedWorld) -> None:
    asked = {"baseline": world.baseline, "explainer": "search", "retrained": world.equal}
    result = world.compare(candidate=world.worse, **asked)["result"]
    assert (result["noise"], result["trainings"]) == ("retraining", 6)
    assert result["retrained"] == world.equal
    assert "accuracy" in result["worse"]
    assert result["agreement"] < 1
    # A GNN that always answers like the baseline is no worse.
    same = world.compare(candidate=world.equal[0], **{**asked, "retrained": world.equal[1:]})[
        "result"
    ]
    assert same["worse"] == []
    assert same["agreement"] == 1


def test_comparisons_are_listed_by_evaluation_and_deleted(world: ComparedWorld) -> None:
    made = world.compare(
        baseline=world.baseline, candidate=world.worse, explainer="greedy", noise="instances"
    )
    client = world.api.client
    listed = client.get(f"/v1/comparisons?evaluation={world.worse}").json()["items"]
    assert listed[0]["candidate_explainer"] == "greedy"
    assert made["id"] in [one["id"] for one in listed]
    gnns = [
        client.get(f"/v1/evaluations/{id_}").json()["gnn"]
        for id_ in (world.baseline, world.worse, world.equal[0])
    ]
    for gnn in gnns[:2]:
        listed = client.get(f"/v1/comparisons?gnn={gnn}").json()["items"]
        assert made["id"] in [one["id"] for one in listed]
    listed = client.get(f"/v1/comparisons?gnn={gnns[2]}").json()["items"]
    assert made["id"] not in [one["id"] for one in listed]
    assert "noise of retraining is not known" in " ".join(made["result"]["warnings"])
    assert client.delete(f"/v1/comparisons/{made['id']}").status_code == 204
    assert client.get(f"/v1/comparisons/{made['id']}").status_code == 404


@pytest.mark.parametrize(
    ("change", "pointer", "words"),
    [
        ({"explainer": None}, "/explainer", "search, greedy"),
        ({"explainer": "random"}, "/explainer", "has search, greedy"),
        ({"retrained": []}, "/retrained", "at least 2"),
        ({"noise": "instances"}, "/retrained", "is for `noise` 'retraining'"),
        ({"candidate": "BASELINE", "retrained": []}, "/candidate", "is the baseline"),
        ({"retrained": ["BASELINE", "EQUAL"]}, "/retrained/0", "already there"),
        ({"candidate": "evl_00000000000000000000"}, "/candidate", "evl_0"),
        ({"alpha": 0}, "/alpha", "greater than 0"),
    ],
)
def test_bad_requests_say_where_and_what_is_allowed(
    world: ComparedWorld, change: Document, pointer: str, words: str
) -> None:
    names = {"BASELINE": world.baseline, "EQUAL": world.equal[0]}

    def named(value: Any) -> Any:
        if isinstance(value, list):
            return [named(one) for one in value]
        return names.get(value, value) if isinstance(value, str) else value

    body = {
        "baseline": world.baseline,
        "candidate": world.worse,
        "explainer": "search",
        "retrained": world.equal,
        **{name: named(value) for name, value in change.items()},
    }
    sent = {name: value for name, value in body.items() if value is not None}
    before = world.api.written()
    answer = world.api.client.post("/v1/comparisons", json=sent)
    assert answer.status_code in (404, 422), answer.text
    assert any(fault["pointer"].startswith(pointer) for fault in answer.json()["errors"])
    assert words in answer.text
    assert world.api.written() == before


def test_evaluations_of_other_sets_and_unfinished_ones_are_refused(world: ComparedWorld) -> None:
    whole = world.evaluated(test=world.reference, count=5, explainers=["search"])
    client = world.api.client
    body = {"baseline": world.baseline, "candidate": whole["id"], "noise": "instances"}
    answer = client.post("/v1/comparisons", json=body)
    assert answer.status_code == 422
    assert "another test set" in answer.text
    waiting = world.posted(seed=77)["id"]
    answer = client.post("/v1/comparisons", json={**body, "candidate": waiting})
    assert answer.status_code == 409
    assert "has no result" in answer.text
