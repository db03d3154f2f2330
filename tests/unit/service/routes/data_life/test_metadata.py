"""Metadata of callers: set, changed, shown, found, and gone with its resource."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import numpy as np
import pytest
from sqlalchemy import func, select

from d4explain.contracts.job_states import JobState
from store import jobs
from store.catalogue import explanations
from store.catalogue.evaluations import evaluations
from store.database.tables import MetadataEntry
from store.jobs import TrainingQueue

METADATA = {"team": "risk", "run": 17, "share": 0.5, "reviewed": False}
PATHS = {
    "exp": "explanations", "gnn": "gnns", "set": "datasets", "den": "denoisers", "job": "jobs",
    "evl": "evaluations", "cmp": "comparisons",
}  # fmt: skip
SEARCH = {"explainer": "search", "aim": "minimal", "judges": "none"}


def path(id_: str) -> str:
    return f"/v1/{PATHS[id_[:3]]}/{id_}"


def get(api, id_: str):
    return api.client.get(path(id_)).json()


def listed(api, noun: str, query: str) -> list[str]:
    answer = api.client.get(f"/v1/{noun}?{query}")
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


def entries(api) -> int:
    with api.store.database.reading() as session:
        return session.scalar(select(func.count()).select_from(MetadataEntry))


def faults(answer, status: int = 422) -> dict[str, str]:
    assert answer.status_code == status, answer.text
    return {fault["pointer"]: fault["detail"] for fault in answer.json()["errors"]}


def posted(api, **metadata):
    return api.explanation(**SEARCH, metadata=metadata)


@pytest.fixture
def created(api) -> dict[str, str]:
    """One resource of every kind with metadata, by the noun of its list."""
    spec, weights = api.spec().model_dump_json(exclude_none=True), api.weights()
    form = {
        "name": (None, "a GNN"),
        "spec": (None, spec),
        "weights": ("weights", weights),
        "metadata": (None, json.dumps(METADATA)),
    }
    client = api.client
    gnn = client.post("/v1/gnns", files=form, headers={"Prefer": "wait=0"}).json()
    api.finish(gnn["job_id"])
    dataset = client.post(
        "/v1/datasets", json={"name": "set", "graphs": [api.graph()], "metadata": METADATA}
    ).json()
    inputs = {"gnn": gnn["id"], "dataset": dataset["id"]}
    denoiser = client.post(
        "/v1/denoisers", json={**inputs, "objective": "counterfactual", "metadata": METADATA}
    ).json()
    explanation = api.explanation(**inputs, **SEARCH, metadata=METADATA)
    prediction = client.post(
        f"/v1/gnns/{gnn['id']}/predictions",
        json={"graph": api.graph(), "metadata": METADATA},
        headers={"Prefer": "wait=0"},
    ).json()
    ids = [api.evaluation(**inputs, metadata=METADATA), api.evaluation(**inputs)]
    for id_ in ids:
        api.finish_evaluation(id_)
    comparison = client.post(
        "/v1/comparisons",
        json={"baseline": ids[0], "candidate": ids[1], "metadata": METADATA},
    ).json()
    return {
        "gnns": gnn["id"],
        "datasets": dataset["id"],
        "denoisers": denoiser["id"],
        "explanations": explanation["id"],
        "jobs": prediction["job"]["id"],
        "evaluations": ids[0],
        "comparisons": comparison["id"],
    }


def test_every_resource_keeps_and_shows_what_its_caller_noted(api, created):
    for noun, id_ in created.items():
        assert get(api, id_)["metadata"] == METADATA, noun
        page = api.client.get(f"/v1/{noun}?metadata.team=risk").json()["items"]
        assert [item["metadata"] for item in page if item["id"] == id_] == [METADATA]
    jobs_by_kind = {item["kind"]: item for item in api.client.get("/v1/jobs").json()["items"]}
    shown = {kind: job["metadata"] for kind, job in jobs_by_kind.items()}
    assert shown.pop("evaluation_shard") == {}  # the job of the evaluation has it
    assert shown == dict.fromkeys(
        ["probe", "train", "counterfactual", "predict", "evaluation", "comparison"], METADATA
    )


def test_resources_without_metadata_show_an_empty_object_and_store_nothing(api):
    explanation = api.explanation()
    assert explanation["metadata"] == explanation["job"]["metadata"] == {}
    assert entries(api) == 0


def test_a_large_graph_takes_metadata_in_the_query(api):
    upload = {
        "content": b'{"x": [[1], [1]], "edge_index": [[0], [1]]}\n',
        "headers": {"Content-Type": "application/x-ndjson", "Idempotency-Key": "large"},
    }
    query = {"name": "big", "metadata": json.dumps(METADATA)}
    stored = api.client.post("/v1/datasets/large", params=query, **upload).json()
    assert stored["metadata"] == METADATA
    other = api.client.post("/v1/datasets/large", params={**query, "metadata": "{}"}, **upload)
    assert other.status_code == 422
    assert other.json()["type"].endswith("idempotency-mismatch")
    wrong = {**upload, "headers": {"Content-Type": "application/x-ndjson"}}
    for text, detail in {"{": "is not JSON", '{"a": []}': "a number, true or false"}.items():
        answer = api.client.post("/v1/datasets/large", params={**query, "metadata": text}, **wrong)
        assert answer.status_code == 422
        assert detail in answer.text


@pytest.mark.parametrize(
    ("metadata", "pointer", "detail"),
    [
        ({"team": ["risk"]}, "/metadata/team", "a number, true or false; got array"),
        ({"team": {"a": 1}}, "/metadata/team", "a number, true or false; got object"),
        ({"team": None}, "/metadata/team", "a number, true or false; got null"),
        ({"team": "x" * 257}, "/metadata/team", "a text of at most 256 characters"),
        ({"team": "a\x00b"}, "/metadata/team", "should have no control characters"),
        ({"run": 2**53}, "/metadata/run", "whole numbers below 2^53"),
        ({str(n): n for n in range(17)}, "/metadata", "at most 16 items"),
        ([], "/metadata", "should be an object"),
    ],
)
def test_metadata_that_cannot_be_kept_is_refused_with_the_limits(api, metadata, pointer, detail):
    before = api.written()
    body = {"name": "set", "graphs": [api.graph()], "metadata": metadata}
    found = faults(api.client.post("/v1/datasets", json=body))
    assert detail in found[pointer]
    assert api.written() == before


@pytest.mark.parametrize("key", ["", "a b", "x" * 65, "ä", "a/b"])
def test_keys_are_short_words(api, key):
    body = {"name": "set", "graphs": [api.graph()], "metadata": {key: 1}}
    assert "A-Za-z0-9_.-" in api.client.post("/v1/datasets", json=body).text


@pytest.mark.parametrize(
    "noun", ["gnns", "datasets", "denoisers", "explanations", "evaluations", "comparisons"]
)
def test_patch_merges_and_null_removes(api, created, noun):
    id_ = created[noun]
    changes = {"metadata": {"team": "fraud", "run": None, "new": True}}
    answer = api.client.patch(path(id_), json=changes)
    assert answer.status_code == 200, answer.text
    expected = {"team": "fraud", "share": 0.5, "reviewed": False, "new": True}
    shown = get(api, id_)
    assert answer.json()["metadata"] == shown["metadata"] == expected
    assert listed(api, noun, "metadata.team=fraud") == [id_]
    assert listed(api, noun, "metadata.run=17") == []
    if noun != "datasets":
        job = shown["job_id"] if noun == "gnns" else shown["job"]["id"]
        assert get(api, job)["metadata"] == expected
        assert listed(api, "jobs", "metadata.new=true") == [job]


def test_patch_refuses_too_many_keys_and_changes_nothing(api, created):
    id_ = created["explanations"]
    many = {f"k{number}": number for number in range(13)}
    assert (
        "17 keys; at most 16"
        in faults(api.client.patch(path(id_), json={"metadata": many}))["/metadata"]
    )
    assert get(api, id_)["metadata"] == METADATA
    assert faults(api.client.patch(path(id_), json={}))["/metadata"] == "is required"


def test_a_request_for_an_existing_denoiser_merges_its_metadata(api, created):
    denoiser = get(api, created["denoisers"])
    body = {key: denoiser[key] for key in ("gnn", "dataset", "objective")}
    again = api.client.post("/v1/denoisers", json={**body, "metadata": {"team": "fraud"}}).json()
    assert again["id"] == denoiser["id"]
    assert again["metadata"] == again["job"]["metadata"] == {**METADATA, "team": "fraud"}


def test_a_retried_job_keeps_the_metadata(api, created):
    job = get(api, created["explanations"])["job"]["id"]
    api.client.post(f"/v1/jobs/{job}/cancel")
    again = api.client.post(f"/v1/jobs/{job}/retry").json()
    assert again["metadata"] == METADATA
    assert set(listed(api, "jobs", "metadata.team=risk&kind=counterfactual")) == {job, again["id"]}


def test_the_same_key_with_other_metadata_is_another_request(api):
    gnn, dataset = api.gnn(), api.dataset()
    body = {
        "kind": "counterfactual",
        "gnn": gnn,
        "dataset": dataset,
        "graph": api.graph(),
        **SEARCH,
    }
    headers = {"Idempotency-Key": "one"}
    answers = [
        api.client.post(
            "/v1/explanations", json={**body, "metadata": {"run": run}}, headers=headers
        )
        for run in (1, 1, 2)
    ]
    assert [answer.status_code for answer in answers] == [202, 202, 422]
    assert answers[0].json()["id"] == answers[1].json()["id"]


def test_metadata_is_no_part_of_the_request_of_the_job(api):
    gnn, dataset = api.gnn(), api.dataset()
    digests = set()
    for run in (1, 2):
        explanation = api.explanation(gnn=gnn, dataset=dataset, **SEARCH, metadata={"run": run})
        with api.store.database.reading() as session:
            digests.add(explanations.get(session, explanation["id"], "default").request_digest)
    assert len(digests) == 1


def test_filters_find_values_by_their_json_text(api):
    ids = {
        name: posted(api, value=value)["id"]
        for name, value in {
            "text": "17", "whole": 17, "float": 17.0, "half": 0.5, "true": True, "word": "true",
            "long": "x" * 256, "spaced": "a b&c=ü",
        }.items()
    }  # fmt: skip
    for asked, names in {
        "17": {"text", "whole", "float"},
        "17.0": {"text", "whole", "float"},
        "0.50": {"half"},
        "true": {"true", "word"},
        "x" * 256: {"long"},
        "a b&c=ü": {"spaced"},
        "no": set(),
    }.items():
        answer = api.client.get("/v1/explanations", params={"metadata.value": asked}).json()
        assert {item["id"] for item in answer["items"]} == {ids[name] for name in names}, asked


def test_several_filters_must_all_match_and_the_next_page_repeats_them(api):
    for run in range(5):
        posted(api, team="risk" if run else "fraud", run=run)
    query = "metadata.team=risk&limit=2&created_after=2020-01-01&state=queued"
    first = api.client.get(f"/v1/explanations?{query}")
    assert [item["metadata"]["run"] for item in first.json()["items"]] == [4, 3]
    following = api.client.get(first.links["next"]["url"])
    assert [item["metadata"]["run"] for item in following.json()["items"]] == [2, 1]
    assert following.json()["next_cursor"] is None
    assert listed(api, "explanations", "metadata.team=risk&metadata.run=0") == []


@pytest.mark.parametrize(
    "query",
    [
        "metadata.=1",
        "metadata.a%20b=1",
        "metadata.a=1&metadata.a=2",
        "metadata.a=" + "x" * 257,
        "&".join(f"metadata.k{number}=1" for number in range(17)),
        "created_after=yesterday",
        "created_after=2026-11-19T05:00:00",
        "created_before=1763500000",
        "created_before=2026-11-19T05:00:00+01:00",  # a plus that was not encoded
        "metadata=1",
    ],
)
def test_malformed_filters_are_refused(api, query):
    answer = api.client.get(f"/v1/explanations?{query}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"].startswith(query.split("=")[0][:8])


def test_lists_are_filtered_by_time(api):
    ids = [posted(api, run=run)["id"] for run in range(3)]
    times = [get(api, id_)["created_at"] for id_ in ids]
    at = times[1]
    assert ids[1] in listed(api, "explanations", f"created_after={at}")
    assert ids[0] in listed(api, "explanations", f"created_before={at}") or times[0] == at
    hour = timedelta(hours=1)
    moment = datetime.fromisoformat(at)
    for sign, expected in ((-1, set(ids)), (1, set())):
        asked = (moment + sign * hour).isoformat()
        for noun, found in (("explanations", expected),):
            answer = api.client.get(f"/v1/{noun}", params={"created_after": asked}).json()
            assert {item["id"] for item in answer["items"]} == found
            answer = api.client.get(f"/v1/{noun}", params={"created_before": asked}).json()
            assert {item["id"] for item in answer["items"]} == set(ids) - found
    for noun in (*PATHS.values(), "keys", "webhooks", "webhook-deliveries"):
        assert listed(api, noun, "created_before=2020-01-01T00:00:00Z") == []


def test_the_state_filter_agrees_with_the_shown_state(api):
    """Over explanations in random states of both of their jobs."""
    rng = np.random.default_rng(3)
    gnn, dataset = api.gnn(), api.dataset()
    for seed in range(40):
        explanation = api.explanation(
            gnn=gnn, dataset=dataset, seed=seed, denoiser={"steps": int(rng.integers(1, 4))}
        )
        with api.store.database.transaction() as session:
            row = explanations.get(session, explanation["id"], "default")
            first = jobs.get(session, row.provisional_job_id, "default")
            final = jobs.get(session, row.job_id, "default")
            final.state = rng.choice(list(JobState))
            for job in (first, final):
                job.started_at = None if rng.random() < 0.5 else 1.0
            row.provisional_digest = None if rng.random() < 0.5 else "3" * 64
    shown: dict[str, set[str]] = {state: set() for state in JobState}
    with api.store.database.reading() as session:
        for row in explanations.page(session, limit=200, tenant="default").items:
            final = jobs.get(session, row.job_id, "default")
            first = jobs.get(session, row.provisional_job_id, "default")
            shown[explanations.state_of(row, final, first)].add(row.id)
    assert all(shown[state] for state in ("queued", "running", "succeeded", "failed", "canceled"))
    for state, ids in shown.items():
        assert set(listed(api, "explanations", f"state={state}&limit=200")) == ids


def test_other_lists_filter_by_state(api):
    ready, rejected = api.gnn(), api.gnn(state="rejected")
    assert listed(api, "gnns", "state=ready") == [ready]
    assert listed(api, "gnns", "state=rejected") == [rejected]
    explanation = api.explanation(gnn=ready)
    assert listed(api, "denoisers", "state=training") == [explanation["denoiser"]]
    assert listed(api, "denoisers", "state=ready") == []


def test_evaluations_are_found_by_the_state_that_they_show(api, created):
    """The evaluation whose first shard runs has a queued job, and shows that it runs."""
    evaluated, compared = created["evaluations"], created["comparisons"]
    gnn, dataset = api.gnn(), api.dataset()
    running, queued = (api.evaluation(gnn=gnn, dataset=dataset) for _ in range(2))
    with api.store.database.reading() as session:
        [shard] = evaluations.shards(session, running, "default")
    api.claim(shard.job_id)
    for id_, state in {evaluated: "succeeded", running: "running", queued: "queued"}.items():
        assert get(api, id_)["state"] == state
        for asked in ("succeeded", "running", "queued", "failed"):
            assert (id_ in listed(api, "evaluations", f"state={asked}")) == (asked == state)
    assert listed(api, "comparisons", "state=queued") == [compared]
    api.client.post(get(api, compared)["links"]["job"] + "/cancel")
    assert listed(api, "comparisons", "state=canceled") == [compared]
    assert listed(api, "comparisons", "state=queued") == []


def test_deleted_resources_leave_no_metadata(api, created):
    assert entries(api) > 0
    with api.store.database.transaction() as session:
        for job in jobs.page(session, tenant="default", state=JobState.QUEUED).items:
            jobs.cancel(session, job.id, "default")
        assert TrainingQueue.read(session) is not None
    others = ("explanations", "jobs", "denoisers", "gnns", "datasets")
    for noun in ("comparisons", "evaluations", *others):
        answer = api.client.delete(path(created[noun]))
        assert answer.status_code == 204, answer.text
    assert entries(api) == 0
    assert all(not job["metadata"] for job in api.client.get("/v1/jobs").json()["items"])
