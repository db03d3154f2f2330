"""Provisional and final answers over HTTP, with the real handlers and small networks."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Any

import pytest
import torch
from sqlalchemy import select

from d4explain.client.client import Client
from d4explain.client.errors import UnsuccessfulJobError
from d4explain.client.resources import Explanation
from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.job_states import JobKind, JobState, Stage
from d4explain.contracts.results import ClassResult
from d4explain.contracts.scopes import DEFAULT_TENANT
from d4explain.gnn.errors import RefusedError
from store import jobs
from store.database.tables import JobEvent
from tests.unit.flows.test_transfer import (
    NODE_SPEC,
    QUICK,
    SPEC,
    degree_counter,
    edge_counter,
    ring,
)
from worker.execution.handler_api import HandlerContext, HandlerOutput
from worker.handlers.provisional import handle_provisional
from worker.handlers.witnesses import handle_witnesses
from worker.loading.library import Library

torch.set_num_threads(1)
SMALL_DENOISER = {"steps": 8, "hidden": 4, "blocks": 1}
TRAININGS = {JobKind.TRAIN, JobKind.WITNESSES}
CLASS_QUESTION = {"kind": "class", "graph": None, "target_class": 1, "steps": 3, "candidates": 4}
QUICK_WITNESSES = {JobKind.WITNESSES: partial(handle_witnesses, plans=QUICK)}


@pytest.fixture(scope="module")
def api(deployed: Callable[..., Any]) -> Any:
    return deployed(exact_nodes=16)


class World:
    """One GNN and reference set, for which every question with another seed trains a denoiser."""

    def __init__(self, api: Any) -> None:
        self.api = api
        self.library = Library(api.store.artifacts, torch.device("cpu"))
        self.gnn = self.registered("edges", SPEC, edge_counter(20.5))
        graphs = [ring(nodes, chords) for nodes in (5, 6, 7, 8) for chords in (0, 1, 2, 3)] * 8
        created = api.client.post("/v1/datasets", json={"name": "rings", "graphs": graphs})
        self.dataset = created.json()["id"]
        self._trainings = 0

    def registered(self, name: str, spec: dict[str, Any], weights: bytes) -> str:
        answer = self.api.client.post(
            "/v1/gnns",
            data={"name": name, "spec": json.dumps(spec)},
            files={"weights": ("w", weights)},
            headers={"Prefer": "respond-async"},
        )
        assert answer.status_code == 202, answer.text
        self.api.work()
        return str(answer.json()["id"])

    def post(self, query: str = "", headers: Any = None, **body: Any) -> Any:
        self._trainings += 1
        asked = {
            "kind": "counterfactual",
            "gnn": self.gnn,
            "dataset": self.dataset,
            "graph": ring(6, 1),
            "denoiser": {**SMALL_DENOISER, "seed": self._trainings},
            **body,
        }
        asked = {name: value for name, value in asked.items() if value is not None}
        return self.api.client.post(f"/v1/explanations{query}", json=asked, headers=headers)

    def asked(self, **body: Any) -> dict[str, Any]:
        answer = self.post(**body)
        assert answer.status_code == 202, answer.text
        posted: dict[str, Any] = answer.json()
        return posted

    def work(self, *kinds: JobKind) -> None:
        self.api.work(self.library, QUICK_WITNESSES, kinds or None)

    def read(self, explanation: dict[str, Any], query: str = "") -> dict[str, Any]:
        got: dict[str, Any] = self.api.client.get(
            f"/v1/explanations/{explanation['id']}{query}"
        ).json()
        return got

    def job(self, job_id: str) -> dict[str, Any]:
        got: dict[str, Any] = self.api.client.get(f"/v1/jobs/{job_id}").json()
        return got

    def cancel(self, job_id: str) -> None:
        assert self.api.client.post(f"/v1/jobs/{job_id}/cancel").status_code in (200, 202)

    def events(self, job_id: str) -> list[tuple[str, dict[str, Any]]]:
        with self.api.store.database.reading() as session:
            return [
                (one.type.value, one.data)
                for one in jobs.events(session, job_id, tenant=DEFAULT_TENANT)
            ]


@pytest.fixture(scope="module")
def world(api: Any) -> World:
    return World(api)


def training_of(posted: dict[str, Any]) -> str:
    (training,) = (one["job"] for one in posted["job"]["trainings"] if one["kind"] == "train")
    return str(training)


def test_a_question_about_a_new_gnn_is_answered_before_and_after_training(world: World) -> None:
    posted = world.asked()
    assert [(one["stage"], one["state"]) for one in posted["answers"]] == [
        ("provisional", "queued"),
        ("final", "queued"),
    ]
    assert {one["kind"] for one in posted["job"]["trainings"]} == {"train", "witnesses"}

    world.work(JobKind.PROVISIONAL)
    early = world.read(posted)
    assert (early["state"], early["result_stage"], early["reason"]) == (
        "running",
        "provisional",
        None,
    )
    first = CounterfactualResult.model_validate(early["result"])
    (best, *_) = first.answers[0].counterfactuals
    assert (first.stage, best.aim, best.verdict) == (Stage.PROVISIONAL, "minimal", "unjudged")
    assert first.unjudged_reason is not None
    assert "provisional" in first.unjudged_reason
    assert len(first.final_adds) == 4
    assert (first.receipt.denoiser_sha256, first.receipt.witnesses_sha256) == (None, None)
    assert first.receipt.config["explainer"] == "search"
    assert first.receipt.config["preset"] == "fast"
    assert early["job"]["waiting_for"] is not None

    world.work()
    late = world.read(posted)
    assert (late["state"], late["result_stage"], late["reason"]) == ("succeeded", "final", None)
    last = CounterfactualResult.model_validate(late["result"])
    assert (last.stage, last.final_adds) == (Stage.FINAL, [])
    assert last.receipt.denoiser_sha256 is not None
    assert last.judges
    assert {one["job"] for one in late["answers"]} == {one["job"] for one in posted["answers"]}
    for answer, result in zip(late["answers"], (early["result"], late["result"]), strict=True):
        document = world.api.client.get(answer["url"])
        assert hashlib.sha256(document.content).hexdigest() == answer["sha256"]
        assert document.json() == result
        known = {"If-None-Match": document.headers["etag"]}
        assert world.api.client.get(answer["url"], headers=known).status_code == 304

    told = world.events(posted["job"]["id"])
    stages = [data["stage"] for kind, data in told if kind == "answer"]
    assert stages == ["provisional", "final"]
    ended = [data for kind, data in told if kind == "state" and JobState(data["state"]).is_terminal]
    assert len(ended) == 1
    assert told[-1] == ("state", ended[0])


def test_a_class_is_explained_from_the_data_before_the_denoiser_is_trained(world: World) -> None:
    posted = world.asked(**CLASS_QUESTION)
    assert [one["stage"] for one in posted["answers"]] == ["provisional", "final"]
    world.work(JobKind.PROVISIONAL)
    early = world.read(posted)
    first = ClassResult.model_validate(early["result"])
    assert (early["state"], first.stage, len(first.final_adds)) == (
        "running",
        Stage.PROVISIONAL,
        1,
    )
    assert first.examples
    assert {tuple(one.found_by) for one in first.examples} == {("data",)}
    assert first.receipt.denoiser_sha256 is None
    drawn = world.api.client.get(early["links"]["svg"]).text
    assert "<title>Provisional: pattern of class 1" in drawn

    world.work()
    late = world.read(posted)
    last = ClassResult.model_validate(late["result"])
    assert (late["state"], last.stage, last.final_adds) == ("succeeded", Stage.FINAL, [])
    assert last.receipt.denoiser_sha256 is not None
    assert all(one.denoiser_likelihood is not None for one in last.examples)
    stored = world.api.client.get(late["answers"][0]["url"])
    assert stored.json() == early["result"]


def test_drawings_say_which_answer_they_show(world: World) -> None:
    posted = world.asked()
    world.work(JobKind.PROVISIONAL)
    title = re.compile("<title>(.*?):")
    drawn = world.api.client.get(world.read(posted)["links"]["svg"]).text
    assert title.findall(drawn) == ["Provisional"]
    world.work()
    provisional, final = world.read(posted)["answers"]
    assert title.findall(world.api.client.get(provisional["svg"]).text) == ["Provisional"]
    assert "rovisional" not in world.api.client.get(final["svg"]).text


def test_existing_witnesses_judge_a_provisional_answer(world: World) -> None:
    world.asked()
    world.work()  # the witnesses are trained now
    posted = world.asked()
    world.work(JobKind.PROVISIONAL)
    result = CounterfactualResult.model_validate(world.read(posted)["result"])
    assert (result.unjudged_reason, len(result.judges)) == (None, 2)
    assert result.answers[0].counterfactuals[0].transfers is not None
    assert not any("verdicts" in what for what in result.final_adds)
    world.work()


@pytest.mark.parametrize("body", [{"explainer": "search", "denoiser": None}, {"aim": "minimal"}])
def test_nothing_is_provisional_if_nothing_has_to_be_trained(
    world: World, body: dict[str, Any]
) -> None:
    world.asked(denoiser={**SMALL_DENOISER, "seed": 0})
    world.work()
    posted = world.asked(**{"denoiser": {**SMALL_DENOISER, "seed": 0}, **body})
    assert [one["stage"] for one in posted["answers"]] == ["final"]
    assert posted["job"]["waiting_for"] is None
    world.work()


def test_large_graphs_and_the_paper_get_no_provisional_answer(world: World) -> None:
    paper = {"explainer": "d4-paper", "denoiser": {**SMALL_DENOISER, "recipe": "paper", "seed": 99}}
    for body in (
        {"graph": ring(17)},  # above D4_EXACT_NODES
        paper,
        {**CLASS_QUESTION, **paper},
    ):
        posted = world.asked(**body)
        assert [one["stage"] for one in posted["answers"]] == ["final"]
        assert posted["job"]["waiting_for"] is not None
        world.cancel(posted["job"]["id"])
    world.work()


def test_nodes_get_a_provisional_answer_in_any_posted_graph(world: World) -> None:
    gnn = world.registered("degrees", NODE_SPEC, degree_counter(3.5))
    posted = world.asked(gnn=gnn, graph=ring(17), node="n3")  # its neighbourhood is small
    assert [one["stage"] for one in posted["answers"]] == ["provisional", "final"]
    world.work(JobKind.PROVISIONAL)
    (answer,) = world.read(posted)["result"]["answers"]
    assert answer["node"]["id"] == "n3"
    world.cancel(posted["job"]["id"])
    world.work()


def test_wait_for_rules_prefer_and_retry_after(world: World) -> None:
    gnn = world.registered("more edges", SPEC, edge_counter(19.5))  # it has no witnesses yet
    posted = world.asked(gnn=gnn)
    at = f"/v1/explanations/{posted['id']}"
    client = world.api.client
    thread = world.api.soon(lambda: world.work(JobKind.PROVISIONAL), lambda: True)
    early = client.get(f"{at}?wait_for=provisional", headers={"Prefer": "wait=20"})
    thread.join()
    assert early.json()["result_stage"] == "provisional"
    assert early.elapsed.total_seconds() < 19
    assert "retry-after" not in early.headers
    waited = client.get(at, headers={"Prefer": "wait=1"})
    assert waited.json()["state"] == "running"
    assert int(waited.headers["retry-after"]) > 1  # both trainings
    assert client.get(f"{at}?wait_for=neither").status_code == 422
    world.work()
    done = client.get(at, headers={"Prefer": "wait=20"})
    assert (done.json()["state"], done.elapsed.total_seconds() < 5) == ("succeeded", True)


def test_posting_with_wait_for_answers_with_the_awaited_answer(world: World) -> None:
    def submitted() -> bool:
        return bool(world.api.queued("provisional"))

    thread = world.api.soon(lambda: world.work(JobKind.PROVISIONAL), submitted)
    answer = world.post("?wait_for=provisional", headers={"Prefer": "wait=20"})
    thread.join()
    assert (answer.status_code, answer.json()["result_stage"]) == (200, "provisional")
    assert answer.json()["result"]["stage"] == "provisional"
    later = world.post(headers={"Prefer": "wait=1"})
    assert later.status_code == 202
    world.cancel(later.json()["job"]["id"])
    world.work()


def test_one_key_gives_one_explanation_and_one_provisional_job(world: World) -> None:
    body = {"denoiser": {**SMALL_DENOISER, "seed": 77}}
    headers = {"Idempotency-Key": "twice"}
    before = world.api.written()
    ids = {world.post(headers=headers, **body).json()["id"] for _ in range(2)}
    after = world.api.written()
    assert len(ids) == 1
    assert after["explanations"] - before["explanations"] == 1
    assert after["jobs"] - before["jobs"] == 3  # training, provisional, final
    world.work()


def refuse(context: HandlerContext) -> HandlerOutput:
    raise RefusedError("these weights cannot be trained")


@pytest.mark.parametrize("provisional_first", [True, False])
def test_an_explanation_succeeds_with_its_provisional_answer_if_training_fails(
    world: World, provisional_first: bool
) -> None:
    posted = world.asked()
    steps = [
        lambda: world.api.work(world.library, {JobKind.TRAIN: refuse}, {JobKind.TRAIN}),
        lambda: world.work(JobKind.PROVISIONAL),
    ]
    for step in reversed(steps) if provisional_first else steps:
        assert not JobState(world.read(posted)["state"]).is_terminal
        step()
    ended = world.read(posted)
    assert (ended["state"], ended["result_stage"]) == ("succeeded", "provisional")
    assert "these weights cannot be trained" in ended["reason"]
    assert ended["job"]["state"] == "failed"
    final = world.api.client.get(ended["answers"][1]["url"])
    assert final.status_code == 409
    assert "does not exist" in final.json()["detail"]

    retried = world.api.client.post(ended["job"]["links"]["retry"])
    assert retried.status_code == 202
    world.work()
    again = world.read(posted)
    assert (again["state"], again["result_stage"], again["reason"]) == ("succeeded", "final", None)
    assert again["answers"][0]["sha256"] == ended["answers"][0]["sha256"]


def test_an_explanation_succeeds_with_its_provisional_answer_if_training_is_canceled(
    world: World,
) -> None:
    posted = world.asked()
    world.cancel(training_of(posted))
    assert world.read(posted)["state"] == "queued"
    world.work()
    ended = world.read(posted)
    assert (ended["state"], ended["result_stage"]) == ("succeeded", "provisional")
    assert "canceled" in ended["reason"]


def test_an_explanation_fails_if_training_and_the_provisional_job_fail(world: World) -> None:
    posted = world.asked()
    handlers = {JobKind.TRAIN: refuse, JobKind.PROVISIONAL: refuse}
    world.api.work(world.library, handlers, set(handlers))
    ended = world.read(posted)
    assert (ended["state"], ended["result"], ended["reason"]) == ("failed", None, None)
    assert ended["job"]["error"]["type"] == "dependency"


def test_the_final_answer_comes_without_a_provisional_one(world: World) -> None:
    posted = world.asked()
    world.api.work(world.library, {JobKind.PROVISIONAL: refuse}, {JobKind.PROVISIONAL})
    world.work()
    ended = world.read(posted)
    assert (ended["state"], ended["result_stage"]) == ("succeeded", "final")
    assert [one["state"] for one in ended["answers"]] == ["failed", "succeeded"]
    assert world.api.client.get(ended["answers"][0]["url"]).status_code == 409


def test_canceling_an_explanation_cancels_its_provisional_answer(world: World) -> None:
    posted = world.asked()
    world.cancel(posted["job"]["id"])
    ended = world.read(posted)
    assert ended["state"] == "canceled"
    assert [one["state"] for one in ended["answers"]] == ["canceled", "canceled"]

    retried = world.api.client.post(ended["job"]["links"]["retry"])
    assert retried.status_code == 202
    world.work()
    again = world.read(posted)
    assert [(one["state"], bool(one["sha256"])) for one in again["answers"]] == [
        ("succeeded", True)
    ] * 2


def test_a_canceled_explanation_keeps_the_answer_that_it_has(world: World) -> None:
    posted = world.asked()
    world.work(JobKind.PROVISIONAL)
    world.cancel(posted["job"]["id"])
    ended = world.read(posted)
    assert (ended["state"], ended["result_stage"]) == ("canceled", "provisional")
    assert world.api.client.get(ended["answers"][0]["url"]).status_code == 200
    world.work()


def expire(world: World, *job_ids: str) -> None:
    with world.api.store.database.transaction() as session:
        for job_id in job_ids:
            jobs.get(session, job_id, tenant=DEFAULT_TENANT).expires_at = 0.0


def reap(world: World) -> None:
    with world.api.store.database.transaction() as session:
        jobs.reap(session)


def ends(world: World, job_id: str) -> list[str]:
    """The terminal states in the events of a job."""
    with world.api.store.database.reading() as session:
        events = session.scalars(select(JobEvent).where(JobEvent.job_id == job_id))
        states = [JobState(event.data["state"]) for event in events if "state" in event.data]
    return [state.value for state in states if state.is_terminal]


def test_overdue_jobs_end_once(world: World) -> None:
    posted = world.asked()
    final, provisional = posted["job"]["id"], posted["answers"][0]["job"]
    trainings = [one["job"] for one in world.job(final)["trainings"]]
    expire(world, final, provisional, *trainings)
    reap(world)
    reap(world)
    for job_id in (final, provisional, *trainings):
        assert len(ends(world, job_id)) == 1, job_id
    assert world.read(posted)["state"] in ("failed", "expired")


def test_a_final_job_does_not_expire_before_its_provisional_one(world: World) -> None:
    posted = world.asked()
    expire(world, posted["job"]["id"])
    reap(world)
    assert world.read(posted)["state"] == "queued"
    world.work(JobKind.PROVISIONAL)
    reap(world)
    ended = world.read(posted)
    assert (ended["state"], ended["result_stage"]) == ("succeeded", "provisional")
    assert ends(world, posted["job"]["id"]) == ["expired"]


def test_a_retry_replaces_a_provisional_job_that_was_asked_to_stop(world: World) -> None:
    posted = world.asked()
    retried: list[int] = []

    def canceled_and_retried(context: HandlerContext) -> HandlerOutput:
        if not retried:
            world.cancel(posted["job"]["id"])
            link = world.read(posted)["job"]["links"]["retry"]
            retried.append(world.api.client.post(link).status_code)
        return handle_provisional(context)

    handlers = {JobKind.PROVISIONAL: canceled_and_retried}
    world.api.work(world.library, handlers, {JobKind.PROVISIONAL})
    assert retried == [202]
    again = world.read(posted)
    assert again["answers"][0]["job"] != posted["answers"][0]["job"]
    assert again["answers"][0]["sha256"] is not None
    assert world.job(posted["answers"][0]["job"])["state"] in ("canceled", "succeeded")
    world.work()
    assert [one["state"] for one in world.read(posted)["answers"]] == ["succeeded"] * 2


def test_a_provisional_job_is_retried_only_while_the_final_one_waits(world: World) -> None:
    posted = world.asked()
    provisional = posted["answers"][0]["job"]
    world.api.work(world.library, {JobKind.PROVISIONAL: refuse}, {JobKind.PROVISIONAL})
    again = world.api.client.post(f"/v1/jobs/{provisional}/retry")
    assert again.status_code == 202, again.text
    world.api.work(world.library, {JobKind.PROVISIONAL: refuse}, {JobKind.PROVISIONAL})
    world.work()
    late = world.api.client.post(f"/v1/jobs/{again.json()['id']}/retry")
    assert late.status_code == 409
    assert "no longer needed" in late.json()["detail"]


def test_a_waiting_job_shows_the_training_and_the_time_left(world: World) -> None:
    posted = world.asked()
    seen: list[dict[str, Any]] = []

    def look(context: HandlerContext) -> HandlerOutput:
        context.control.progress("training", 5, 20, {"eta_seconds": 30.0})
        with context.store.database.transaction() as session:
            progress = context.control.take_progress()
            assert progress is not None
            jobs.record_progress(session, context.claim, progress.document())
        seen.append(world.job(posted["job"]["id"]))
        raise RefusedError("seen enough")

    world.work(JobKind.PROVISIONAL)
    world.api.work(world.library, {JobKind.TRAIN: look}, {JobKind.TRAIN})
    (job,) = seen
    (training,) = (one for one in job["trainings"] if one["kind"] == "train")
    assert (training["state"], training["seconds_left"]) == ("running", 30.0)
    assert job["progress"] == training["progress"]
    assert job["progress"]["step"] == 5
    others = [one["seconds_left"] for one in job["trainings"] if one["kind"] != "train"]
    assert job["seconds_left"] >= 30.0 + sum(others)
    world.work()


def test_a_dry_run_includes_training_witnesses_and_the_provisional_answer(world: World) -> None:
    gnn = world.registered("other edges", SPEC, edge_counter(21.5))
    new = world.post("?dry_run=true", gnn=gnn).json()
    assert (new["trains_denoiser"], new["trains_witnesses"], new["provisional"]) == (True,) * 3
    assert new["denoiser_seconds"] > 0
    assert new["witness_seconds"] > 1
    total = new["denoiser_seconds"] + new["witness_seconds"] + new["seconds"]
    assert new["total_seconds"] == pytest.approx(total, rel=0.1)
    free = world.post(
        "?dry_run=true", explainer="search", aim="minimal", judges="none", denoiser=None
    ).json()
    assert (free["provisional"], free["total_seconds"]) == (False, free["seconds"])


@pytest.fixture
def client(world: World) -> Client:
    return Client("http://127.0.0.1", transport=world.api.client._transport)


def test_the_client_returns_the_answer_that_it_waits_for(world: World, client: Client) -> None:
    explanation = Explanation.model_validate(world.asked())
    world.work(JobKind.PROVISIONAL)
    first = client.result(explanation, wait_for="provisional")
    assert isinstance(first, CounterfactualResult)
    assert first.stage is Stage.PROVISIONAL
    world.work()
    last = client.result(explanation)
    assert isinstance(last, CounterfactualResult)
    assert last.stage is Stage.FINAL


def test_the_client_returns_a_provisional_answer_that_is_the_last(
    world: World, client: Client
) -> None:
    explanation = Explanation.model_validate(world.asked())
    world.work(JobKind.PROVISIONAL)
    world.api.work(world.library, {JobKind.TRAIN: refuse}, {JobKind.TRAIN})
    result = client.result(explanation)
    assert isinstance(result, CounterfactualResult)
    assert result.stage is Stage.PROVISIONAL
    canceled = Explanation.model_validate(world.asked())
    world.cancel(canceled.job.id)
    with pytest.raises(UnsuccessfulJobError):
        client.result(canceled, wait_for="provisional")


def test_the_client_waits_for_a_retried_job(world: World, client: Client) -> None:
    posted = world.asked()
    known = client.explanation(posted["id"])
    world.work(JobKind.PROVISIONAL)
    world.api.work(world.library, {JobKind.TRAIN: refuse}, {JobKind.TRAIN})
    failed = world.read(posted)
    assert failed["result_stage"] == "provisional"
    assert world.api.client.post(failed["job"]["links"]["retry"]).status_code == 202
    worker = Thread(target=world.work)
    worker.start()  # while the client waits: the provisional answer is not the last one
    answered = client.result(known)
    assert isinstance(answered, CounterfactualResult)
    assert answered.stage is Stage.FINAL
    worker.join()
