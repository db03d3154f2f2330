"""Evaluations over HTTP, with the real handlers and small networks."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
import pytest
import torch

from d4explain.contracts.job_states import JobKind, JobState
from store import jobs
from tests.unit.flows.test_transfer import QUICK, SPEC, edge_counter, registered, ring
from worker.handlers.witnesses import handle_witnesses

if TYPE_CHECKING:
    from tests.conftest import Deployment

torch.set_num_threads(1)
Document = dict[str, Any]
DENOISER = {"steps": 8, "hidden": 4, "blocks": 1}
HANDLERS: Document = {JobKind.WITNESSES: partial(handle_witnesses, plans=QUICK)}
TIMES = {"cpu_seconds", "seconds"}


class World:
    """A GNN that counts edges, a reference set of rings and a test set of others."""

    def __init__(self, api: Deployment) -> None:
        self.api = api
        self.gnn = registered(api, "edges", SPEC, edge_counter(20.5))
        rings = [ring(nodes, chords) for nodes in (5, 6, 7, 8) for chords in (0, 1, 2, 3)]
        self.reference = self.created("rings", rings * 8)
        self.test = self.created("tests", [ring(n, c) for n in (6, 7, 9) for c in (0, 1, 2, 4)])

    def created(self, name: str, graphs: list[Document]) -> str:
        answer = self.api.client.post("/v1/datasets", json={"name": name, "graphs": graphs})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def body(self, **changes: Any) -> Document:
        return {
            "gnn": self.gnn,
            "dataset": self.reference,
            "test": self.test,
            "explainers": ["search"],
            "metrics": ["mmd"],
            **changes,
        }

    def posted(self, **changes: Any) -> Document:
        answer = self.api.client.post("/v1/evaluations", json=self.body(**changes))
        assert answer.status_code == 202, answer.text
        document: Document = answer.json()
        return document

    def evaluated(self, **changes: Any) -> Document:
        evaluation = self.posted(**changes)
        self.api.work(handlers=HANDLERS)
        return self.read(evaluation["id"])

    def read(self, id_: str) -> Document:
        document: Document = self.api.client.get(f"/v1/evaluations/{id_}").json()
        assert document["state"] == "succeeded", document["job"]["error"]
        return document

    def rows(self, id_: str, **query: Any) -> Document:
        answer = self.api.client.get(f"/v1/evaluations/{id_}/rows", params=query)
        assert answer.status_code == 200, answer.text
        page: Document = answer.json()
        return page


@pytest.fixture(scope="module")
def world(deployed: Callable[..., Any]) -> World:
    return World(deployed())


@pytest.fixture(scope="module")
def full(world: World) -> Document:
    """All metrics but C2ST, which needs twenty flips."""
    return world.evaluated(
        explainers=["d4", "search", "greedy", "random"],
        metrics=["transfer", "typicality", "mmd", "robustness", "stability"],
        denoiser=DENOISER,
        seed=4,
    )


def test_an_evaluation_has_all_figures_of_every_explainer(full: Document) -> None:
    result = full["result"]
    assert result["instances"] == 12
    assert [one["explainer"] for one in result["explainers"]] == full["explainers"]
    assert result["accuracy"]["count"] == 12
    assert result["test"]["part"] == "whole"
    for one in result["explainers"]:
        assert 0 <= one["validity"]["value"] <= 1
        assert sum(one["edit_histogram"].values()) == round(12 * one["validity"]["value"])
        assert sum(flip["count"] for flip in one["flips"]) == sum(one["edit_histogram"].values())
        assert one["cf_acc_auc"]["value"] <= one["ceiling"] + 1e-9
        assert one["stability"]["count"] == 12
        assert 0 <= one["robustness_before"]["value"] <= 1
        assert one["nafr"] is not None
        if one["edit_histogram"]:
            assert len(one["mmd"]["null_quantiles"]) == 5
    by_name = {one["explainer"]: one for one in result["explainers"]}
    assert by_name["search"]["validity"]["value"] > 0.4
    # The edge counter flips by exactly as many edits as it lacks, which greedy search finds.
    assert by_name["search"]["edits"] == by_name["greedy"]["edits"]
    assert by_name["greedy"]["stability"]["value"] == 1.0
    assert result["receipt"]["witnesses_sha256"] is not None
    assert len(result["judges"]) > 0


def test_figures_follow_from_the_rows(world: World, full: Document) -> None:
    rows = world.rows(full["id"], explainer="search")["items"]
    search = next(one for one in full["result"]["explainers"] if one["explainer"] == "search")
    found = [row for row in rows if row["found"]]
    assert search["validity"]["value"] == pytest.approx(len(found) / len(rows))
    assert search["edits"]["value"] == pytest.approx(
        sum(row["edits"] for row in found) / len(found)
    )
    judged = [row for row in found if row["verdict"] != "unjudged"]
    brittle = sum(row["verdict"] == "brittle" for row in judged)
    assert search["brittle_share"]["value"] == pytest.approx(brittle / len(judged))
    for row in found:
        assert row["edits"] == len(row["added"]) + len(row["removed"])
        assert row["new_class"] != row["predicted_class"]
        assert len(row["judges_share"]) == len(full["result"]["judges"])


def test_rows_are_paged_in_order_and_downloaded_as_csv_and_parquet(
    world: World, full: Document
) -> None:
    whole = world.rows(full["id"])["items"]
    assert [row["instance"] for row in whole] == [i for i in range(12) for _ in range(4)]
    pages, cursor = [], None
    while True:
        page = world.rows(full["id"], limit=7, **({} if cursor is None else {"cursor": cursor}))
        pages += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert pages == whole
    client = world.api.client
    text = client.get(full["links"]["csv"]).text
    table = list(csv.DictReader(io.StringIO(text)))
    assert [row["graph_sha256"] for row in table] == [row["graph_sha256"] for row in whole]
    assert [row["found"] for row in table] == [str(row["found"]).lower() for row in whole]
    parquet = pyarrow.parquet.read_table(io.BytesIO(client.get(full["links"]["parquet"]).content))
    assert parquet.to_pylist() == whole


def test_rows_are_filtered_by_what_was_found(world: World, full: Document) -> None:
    id_, client = full["id"], world.api.client
    whole = world.rows(id_)["items"]
    for query, expected in (
        ({"found": False}, [row for row in whole if not row["found"]]),
        ({"verdict": "brittle"}, [row for row in whole if row["verdict"] == "brittle"]),
        ({"min_edits": 2}, [row for row in whole if (row["edits"] or 0) >= 2]),
        (
            {"explainer": "random", "found": True},
            [row for row in whole if row["explainer"] == "random" and row["found"]],
        ),
    ):
        assert expected, query
        assert len(expected) < len(whole), query
        assert world.rows(id_, **query)["items"] == expected
        first = world.rows(id_, **query, limit=1)
        cursor = first["next_cursor"]
        rest = world.rows(id_, **query, cursor=cursor)["items"] if cursor is not None else []
        assert first["items"] + rest == expected
        text = client.get(f"/v1/evaluations/{id_}/rows", params={**query, "format": "csv"}).text
        table = list(csv.DictReader(io.StringIO(text)))
        assert [row["instance"] for row in table] == [str(row["instance"]) for row in expected]
        refused = client.get(f"/v1/evaluations/{id_}/rows", params={**query, "format": "parquet"})
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["parameter"] in query


def test_shards_and_killed_workers_change_no_figure(world: World, full: Document) -> None:
    """The same evaluation, whose shards run in another order and one of them twice."""
    again = world.posted(
        explainers=full["explainers"],
        metrics=full["result"]["metrics"],
        denoiser=DENOISER,
        seed=4,
    )
    store = world.api.store
    with store.database.reading() as session:
        shards = [
            job.id
            for job in jobs.page(session, tenant="default", kind=JobKind.EVALUATION_SHARD).items
            if job.state is JobState.QUEUED
        ]
    assert shards
    with store.database.transaction() as session:
        assert jobs.claim(session, shards[0], "a worker that dies", -1) is not None
    with store.database.transaction() as session:
        assert shards[0] in jobs.reap(session)
    world.api.work(handlers=HANDLERS)
    second = world.read(again["id"])
    assert second["result"]["rows_sha256"] == full["result"]["rows_sha256"]
    for one, other in zip(
        second["result"]["explainers"], full["result"]["explainers"], strict=True
    ):
        assert {k: v for k, v in one.items() if k not in TIMES} == {
            k: v for k, v in other.items() if k not in TIMES
        }


def test_a_held_out_part_is_in_no_training(world: World) -> None:
    evaluation = world.evaluated(
        test={"held_out": 0.25}, explainers=["d4"], metrics=["typicality"], denoiser=DENOISER
    )
    client = world.api.client
    rest = client.get(f"/v1/datasets/{evaluation['dataset']}").json()
    whole = client.get(f"/v1/datasets/{world.reference}").json()
    assert rest["graph_count"] == 96
    assert evaluation["instance_count"] == 32
    assert whole["graph_count"] == rest["graph_count"] + 32
    assert evaluation["result"]["test"]["part"] == "held_out"
    assert evaluation["test_dataset"] == world.reference
    denoiser = client.get(f"/v1/denoisers/{evaluation['denoiser']}").json()
    assert denoiser["dataset"] == rest["id"]
    again = world.posted(
        test={"held_out": 0.25}, explainers=["d4"], metrics=[], denoiser=DENOISER, seed=9
    )
    assert again["dataset"] == rest["id"]
    assert again["denoiser"] == evaluation["denoiser"]
    world.api.work(handlers=HANDLERS)


def test_counts_are_drawn_by_the_seed_alone(world: World) -> None:
    first = world.evaluated(count=5, seed=1)
    second = world.evaluated(count=5, seed=1)
    other = world.evaluated(count=5, seed=2)
    positions = [
        [row["graph"] for row in world.rows(each["id"])["items"]] for each in (first, second, other)
    ]
    assert positions[0] == positions[1] != positions[2]
    assert positions[0] == sorted(positions[0])
    assert first["result"]["rows_sha256"] == second["result"]["rows_sha256"]


def test_a_dry_run_writes_nothing_and_says_what_costs(world: World) -> None:
    before = world.api.written()
    body = world.body(
        explainers=["d4", "search"], metrics=["transfer", "stability", "c2st", "robustness"]
    )
    answer = world.api.client.post("/v1/evaluations?dry_run=true", json=body)
    assert answer.status_code == 200, answer.text
    estimate = answer.json()
    assert world.api.written() == before
    assert estimate["instances"] == 12
    assert estimate["shards"] >= 1
    assert set(estimate["metric_seconds"]) == {"stability", "c2st", "robustness"}
    assert estimate["trains_denoiser"] is True
    assert (
        estimate["total_seconds"]
        >= estimate["seconds"]
        >= sum(one["seconds"] for one in estimate["explainers"]) * 0.9
    )


@pytest.mark.parametrize(
    ("change", "pointer", "words"),
    [
        ({"explainers": ["d4", "d4-paper"]}, "/explainers", "different denoisers"),
        ({"explainers": ["search", "search"]}, "/explainers/1", "already listed"),
        ({"metrics": ["mmd", "mmd"]}, "/metrics/1", "already listed"),
        ({"explainers": ["magic"]}, "/explainers/0", "'d4'"),
        ({"explainers": []}, "/explainers", "at least 1"),
        ({"test": "nothing"}, "/test", "no dataset called 'nothing'"),
        ({"test": {"held_out": 0.001}}, "/test/held_out", "leaves 0 to evaluate"),
        ({"test": {"held_out": 0.9}}, "/test", "0.5"),
        ({"denoiser": DENOISER}, "/denoiser", "no explainer and no metric"),
        ({"count": 0}, "/count", "greater than or equal to 1"),
    ],
)
def test_bad_requests_say_where_and_what_is_allowed(
    world: World, change: Document, pointer: str, words: str
) -> None:
    before = world.api.written()
    answer = world.api.client.post("/v1/evaluations", json=world.body(**change))
    assert answer.status_code in (404, 422), answer.text
    faults = answer.json()["errors"]
    assert any(fault["pointer"].startswith(pointer) for fault in faults), faults
    assert words in answer.text
    assert world.api.written() == before


def test_rows_of_unfinished_evaluations_are_partial_and_files_refused(world: World) -> None:
    evaluation = world.posted(seed=11)
    client, id_ = world.api.client, evaluation["id"]
    assert world.rows(id_)["items"] == []
    for file in ("csv", "parquet"):
        answer = client.get(f"/v1/evaluations/{id_}/rows?format={file}")
        assert answer.status_code == 409, answer.text
    assert client.delete(f"/v1/evaluations/{id_}").status_code == 409
    listed = client.get("/v1/evaluations").json()["items"]
    assert listed[0]["id"] == id_
    assert listed[0]["state"] == "queued"
    client.post(f"/v1/jobs/{evaluation['job']['id']}/cancel")
    assert client.get(f"/v1/evaluations/{id_}").json()["state"] == "canceled"
    assert client.delete(f"/v1/evaluations/{id_}").status_code == 204
    assert client.get(f"/v1/evaluations/{id_}").status_code == 404
