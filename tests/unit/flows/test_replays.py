"""Replays of explanations over HTTP, with the real handlers and small networks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest
import torch
from sqlalchemy import update

from d4explain.contracts.job_states import JobState
from store import jobs
from store.database.tables import Explanation
from tests.unit.flows.replay_world import (
    EXACT_NODES,
    NEIGHBOURHOOD_NODES,
    ReplayWorld,
    Scenario,
    run_replays,
)

torch.set_num_threads(1)
FIFTY = 50


@pytest.fixture(scope="module")
def world(deployed: Callable[..., Any]) -> ReplayWorld:
    return ReplayWorld(
        deployed(exact_nodes=EXACT_NODES, max_neighbourhood_nodes=NEIGHBOURHOOD_NODES)
    )


def scenario(world: ReplayWorld, name: str) -> Scenario:
    return next(each for each in world.scenarios() if each.name == name)


def assert_match(world: ReplayWorld, explanation: str, stage: str) -> None:
    replay = world.replay(explanation, stage)
    report = replay["report"]
    assert report is not None, replay["job"]["error"]
    assert (report["outcome"], report["differences"]) == ("match", []), report
    assert report["compared_values"] > 30
    assert (replay["explanation"], replay["stage"]) == (explanation, stage)


def test_every_kind_of_answer_is_repeated(world: ReplayWorld) -> None:
    for each in (*world.scenarios(), *world.of_readers()):
        explanation = world.explain(each)
        for stage in each.stages:
            assert_match(world, explanation, stage)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_another_process_repeats_fifty_explanations_of_every_kind(world: ReplayWorld) -> None:
    """Nothing in the memory of the first process helps it. `-s` prints what it cost."""
    readers = list(world.of_readers())
    explained = [
        (each, *world.timed_explain(each, seed))
        for seed in (1, 2)
        for each in (*world.scenarios(seed), *readers, *world.of_the_literature())
    ]
    assert len(explained) >= FIFTY
    posted = [
        (each.name, world.post_replay(explanation, stage))
        for each, explanation, _ in explained
        for stage in each.stages
    ]
    with ProcessPoolExecutor(1, get_context("spawn")) as another:
        seconds = another.submit(run_replays, world.api.store.settings).result()
    outcomes: Counter[str] = Counter()
    for name, answer in posted:
        replay = world.api.client.get(answer.headers["location"]).json()
        assert replay["report"] is not None, (name, replay["job"]["error"])
        assert replay["report"]["differences"] == [], name
        outcomes[replay["report"]["outcome"]] += 1
    assert outcomes == {"match": len(posted)}
    before = sum(cost for _, _, cost in explained)
    print(
        f"\n{len(explained)} explanations of {len({each.name for each, *_ in explained})} kinds, "
        f"{len(posted)} answers: all match; {seconds:.1f} s of CPU instead of {before:.1f} s, "
        f"ratio {seconds / before:.2f}"
    )


def test_a_search_that_the_clock_ended_is_repeated_as_far_as_it_went(world: ReplayWorld) -> None:
    explanation = world.explain(scenario(world, "several graphs cut by the time budget"))
    result = world.answer(explanation)
    assert result["receipt"]["cuts"], "the budget was enough: make the graphs larger"
    assert "the time budget ended the search" in " ".join(result["warnings"])
    assert_match(world, explanation, "final")


def planted(world: ReplayWorld, explanation: str, change: Callable[[Any], None]) -> None:
    """Stores a changed answer in place of the real one."""
    answer = world.answer(explanation)
    change(answer)
    digest = world.api.store.artifacts.of("default").put(json.dumps(answer).encode())
    with world.api.store.database.transaction() as session:
        session.execute(
            update(Explanation).where(Explanation.id == explanation).values(result_digest=digest)
        )


def change_score(answer: Any) -> None:
    answer["answers"][0]["counterfactuals"][0]["confidence"] += 2e-6


def change_verdict(answer: Any) -> None:
    answer["answers"][0]["counterfactuals"][1]["verdict"] = "meaningful"


def change_order(answer: Any) -> None:
    answer["answers"][0]["counterfactuals"].reverse()


def change_graph(answer: Any) -> None:
    del answer["answers"][0]["counterfactuals"][0]["graph"]["edges"][-1]


def change_work(answer: Any) -> None:
    answer["receipt"]["work"]["gnn_evaluations"] += 1


@pytest.mark.parametrize(
    ("change", "pointer", "graph"),
    [
        (change_score, "/answers/0/counterfactuals/0/confidence", 0),
        (change_verdict, "/answers/0/counterfactuals/1/verdict", 0),
        (change_order, "/answers/0/counterfactuals/0/", 0),
        (change_graph, "/answers/0/counterfactuals/0/graph/edges/", 0),
        (change_work, "/receipt/work/gnn_evaluations", None),
    ],
)
def test_a_planted_difference_is_reported_at_its_place(
    world: ReplayWorld, change: Callable[[Any], None], pointer: str, graph: int | None
) -> None:
    explanation = world.explain(scenario(world, "a named judge"))
    planted(world, explanation, change)
    report = world.replay(explanation)["report"]
    assert report["outcome"] == "differs"
    first = report["differences"][0]
    assert first["pointer"].startswith(pointer)
    assert first["graph"] == graph
    assert first["recorded"] != first["repeated"]
    assert len(report["differences"]) == min(report["difference_count"], 20)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("cpu", "Another CPU, AVX512", "CPU type was Another CPU, AVX512"),
        ("torch", "1.0 (abc)", "torch build was 1.0 (abc)"),
        ("threads", 64, "threads was 64"),
        ("device", "cuda H100, CUDA 13", "device was cuda H100"),
    ],
)
def test_work_of_another_environment_is_not_comparable(
    world: ReplayWorld, field: str, value: Any, reason: str
) -> None:
    explanation = world.explain(scenario(world, "search"))
    planted(
        world, explanation, lambda answer: answer["receipt"]["environment"].update({field: value})
    )
    report = world.replay(explanation)["report"]
    assert report["outcome"] == "not_comparable"
    assert reason in report["reason"]


def test_receipts_of_earlier_versions_are_not_comparable(world: ReplayWorld) -> None:
    explanation = world.explain(scenario(world, "search"))
    planted(world, explanation, lambda answer: answer["receipt"].pop("environment"))
    report = world.replay(explanation)["report"]
    assert report["outcome"] == "not_comparable"
    assert "earlier version" in report["reason"]


def test_a_replay_is_created_once_per_key_and_stage(world: ReplayWorld) -> None:
    explanation = world.explain(scenario(world, "d4"))
    key = {"Idempotency-Key": f"replay-{explanation}"}
    first = world.post_replay(explanation, "final", **key)
    again = world.post_replay(explanation, "final", **key)
    assert again.json()["id"] == first.json()["id"]
    assert again.headers["idempotency-replayed"] == "true"
    assert world.post_replay(explanation, "provisional", **key).status_code == 422
    world.api.work()
    client = world.api.client
    waited = client.get(first.headers["location"], headers={"Prefer": "wait=1"})
    assert waited.json()["report"]["outcome"] == "match"
    listed = client.get(f"/v1/explanations/{explanation}/replays").json()["items"]
    assert [each["id"] for each in listed] == [first.json()["id"]]
    assert client.get(f"/v1/jobs/{first.json()['job']['id']}").json()["result"] == {
        "kind": "replay",
        "replay": first.json()["id"],
        "outcome": "match",
    }


def test_what_cannot_be_replayed_is_refused(world: ReplayWorld) -> None:
    client = world.api.client
    assert client.post("/v1/explanations/exp_unknown/replay").status_code == 404
    assert client.get("/v1/explanations/exp_unknown/replays").status_code == 404
    assert client.get("/v1/replays/rpl_unknown").status_code == 404
    explanation = world.explain(scenario(world, "search"))
    missing = world.post_replay(explanation, "provisional")
    assert missing.status_code == 409
    assert "the provisional answer" in missing.json()["detail"].lower()
    assert world.post_replay(explanation, "middle").status_code == 422

    planted(world, explanation, lambda answer: answer["receipt"].update(gnn_form="black_box"))
    refused = world.post_replay(explanation)
    assert refused.status_code == 409
    assert "behind a URL" in refused.json()["detail"]


def test_deleted_inputs_are_gone(world: ReplayWorld) -> None:
    client = world.api.client
    explanation = world.explain(Scenario("own judge", {**scenario(world, "a named judge").body}))
    planted(
        world, explanation, lambda answer: answer["receipt"]["judges"].update(gnn_gone="0" * 64)
    )
    gone = world.post_replay(explanation)
    assert (gone.status_code, gone.json()["detail"]) == (410, "The judge gnn_gone was deleted")

    graphs = [ring_without_label() for _ in range(3)]
    dataset = client.post("/v1/datasets", json={"name": "own", "graphs": graphs}).json()["id"]
    other = world.explain(
        Scenario("own set", {**scenario(world, "search").body, "dataset": dataset})
    )
    replay = world.post_replay(other).json()
    assert client.delete(f"/v1/datasets/{dataset}").status_code == 409  # a job needs it
    world.api.work()
    assert client.get(replay["links"]["self"]).json()["report"]["outcome"] == "match"
    assert client.delete(f"/v1/datasets/{dataset}").status_code == 204
    gone = world.post_replay(other)
    assert gone.status_code == 410
    assert dataset in gone.json()["detail"]


def test_an_artifact_that_vanishes_before_the_replay_starts_fails_the_job(
    world: ReplayWorld,
) -> None:
    explanation = world.explain(scenario(world, "search"))
    replay = world.post_replay(explanation).json()
    receipt = world.answer(explanation)["receipt"]
    world.api.store.artifacts.of("default").delete(receipt["request_sha256"])
    gone = world.post_replay(explanation)
    assert gone.status_code == 410
    world.api.work()
    job = world.api.client.get(f"/v1/jobs/{replay['job']['id']}").json()
    assert job["state"] == JobState.FAILED
    assert "was deleted" in job["error"]["message"]
    with world.api.store.database.reading() as session:
        assert jobs.get(session, job["id"], world.api.tenant).result is None


def ring_without_label() -> dict[str, Any]:
    return {"edge_index": [[0, 1, 2, 3], [1, 2, 3, 0]], "num_nodes": 4}
