from __future__ import annotations

import json
import threading
import time
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from service.http.faults import InvalidRequestError
from service.http.waiting import parse_prefer
from store import jobs


def train_job(api):
    body = {"gnn": api.gnn(), "dataset": api.dataset(), "objective": "class"}
    return api.client.post("/v1/denoisers", json=body).json()["job"]["id"]


def parsed(text):
    """Server-sent events as (id, type, data); comments are heartbeats."""
    found = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line[1:])
        if "event" in fields:
            found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
    return found


def progress(api, claim, step):
    with api.store.database.transaction() as session:
        jobs.record_progress(session, claim, {"phase": "training", "step": step, "total": 3})


def test_a_job_has_its_subject_and_links(api):
    job_id = train_job(api)
    job = api.client.get(f"/v1/jobs/{job_id}")
    assert job.headers["retry-after"] == "1"
    job = job.json()
    assert (job["kind"], job["queue"], job["state"]) == ("train", "train", "queued")
    assert job["links"]["cancel"] == f"/v1/jobs/{job_id}/cancel"
    assert job["links"]["retry"] is None
    assert job["links"]["result"] == f"/v1/denoisers/{job['subject']['denoiser']}"
    assert job["created_at"].endswith("Z")

    progress(api, api.claim(job_id), 2)
    job = api.client.get(f"/v1/jobs/{job_id}").json()
    assert (job["state"], job["attempt"]) == ("running", 1)
    assert job["progress"] == {"phase": "training", "step": 2, "total": 3}


def test_cancel_and_retry(api):
    job_id = train_job(api)
    assert api.client.post(f"/v1/jobs/{job_id}/retry").status_code == 409

    canceled = api.client.post(f"/v1/jobs/{job_id}/cancel")
    assert (canceled.status_code, canceled.json()["state"]) == (200, "canceled")
    assert api.client.post(f"/v1/jobs/{job_id}/cancel").status_code == 409

    headers = {"Idempotency-Key": "again"}
    retried = api.client.post(f"/v1/jobs/{job_id}/retry", headers=headers)
    assert retried.status_code == 202
    assert retried.headers["location"] == f"/v1/jobs/{retried.json()['id']}"
    assert retried.json()["retry_of"] == job_id
    same = api.client.post(f"/v1/jobs/{job_id}/retry", headers=headers)
    assert same.json()["id"] == retried.json()["id"]
    assert api.client.post(f"/v1/jobs/{job_id}/retry").status_code == 409


def test_a_running_job_is_asked_to_stop(api):
    job_id = train_job(api)
    claim = api.claim(job_id)
    answer = api.client.post(f"/v1/jobs/{job_id}/cancel")
    assert answer.status_code == 202
    assert answer.json()["cancel_requested"] is True
    assert answer.json()["state"] == "running"
    with api.store.database.transaction() as session:
        jobs.cancel_running(session, claim)
    assert api.client.get(f"/v1/jobs/{job_id}").json()["state"] == "canceled"


def test_a_failed_job_has_the_errors_of_all_attempts(api):
    job_id = train_job(api)
    for message in ("first", "second", "third"):
        claim = api.claim(job_id)
        with api.store.database.transaction() as session:
            jobs.fail(session, claim, "crash", message, retryable=True)
    error = api.client.get(f"/v1/jobs/{job_id}").json()["error"]
    assert [attempt["message"] for attempt in error["attempts"]] == ["first", "second", "third"]
    assert error["message"] == "third"
    assert error["attempts"][0]["at"].endswith("Z")


def test_following_page_links_lists_every_job(api):
    created = [api.gnn() for _ in range(7)]
    address, seen = "/v1/gnns?limit=3", []
    while address:
        answer = api.client.get(address)
        page = answer.json()
        seen += [gnn["id"] for gnn in page["items"]]
        link = answer.links.get("next", {}).get("url")
        assert (link is None) == (page["next_cursor"] is None)
        if link:
            query = parse_qs(urlsplit(link).query)
            assert query == {"limit": ["3"], "cursor": [page["next_cursor"]]}
        address = link
    assert seen == created[::-1]


def test_links_of_pages_repeat_the_filters(api):
    gnn = api.gnn()
    api.gnn()
    for _ in range(2):
        api.client.post(
            f"/v1/gnns/{gnn}/predictions",
            json={"graph": api.graph()},
            headers={"Prefer": "wait=0"},
        )
    first = api.client.get(f"/v1/jobs?limit=1&kind=predict&state=queued&gnn={gnn}")
    second = api.client.get(first.links["next"]["url"])
    found = first.json()["items"] + second.json()["items"]
    assert [(job["kind"], job["subject"]["gnn"]) for job in found] == [("predict", gnn)] * 2
    assert "next" not in second.links


@pytest.mark.parametrize(
    ("header", "default", "seconds", "applied"),
    [
        (None, 10, 10, None),
        ("wait=3", 10, 3, "wait=3"),
        ("wait=0", 10, 0, "wait=0"),
        ('respond-async, wait="5"', 0, 5, "wait=5"),
        ("Wait = 7 ; x=y", 0, 7, "wait=7"),
        ("wait=600", 0, 60, "wait=60"),
        ("wait=999999999999", 2, 60, "wait=60"),
        ("respond-async", 10, 0, "respond-async"),
        ("return=minimal, handling=lenient", 4, 4, None),
        ("wait=1, wait=9", 0, 1, "wait=1"),
    ],
)
def test_prefer_headers(header, default, seconds, applied):
    found = parse_prefer(header, default)
    assert (found.seconds, found.applied) == (seconds, applied)


@pytest.mark.parametrize("header", ["wait=-1", "wait=1.5", "wait", "respond-async, wait=soon"])
def test_a_wait_that_is_no_number_is_refused(header):
    with pytest.raises(InvalidRequestError, match="whole seconds, at most 60, such as wait=10"):
        parse_prefer(header, 10)


def test_waiting_for_a_job_ends_when_it_ends(served):
    job_id = train_job(served)
    worker = threading.Timer(0.4, served.finish, [job_id])
    worker.start()
    answer = served.client.get(f"/v1/jobs/{job_id}", headers={"Prefer": "wait=20"})
    worker.join()
    assert answer.json()["state"] == "succeeded"
    assert 0.3 < answer.elapsed.total_seconds() < 5
    assert "retry-after" not in answer.headers


def test_many_requests_can_wait_concurrently(served):
    """More requests wait than the pool has threads: waiting must not hold a thread."""
    job_id = train_job(served)
    limits = httpx.Limits(max_connections=80)
    states = []
    with httpx.Client(base_url=served.client.base_url, timeout=30, limits=limits) as client:

        def wait():
            answer = client.get(f"/v1/jobs/{job_id}", headers={"Prefer": "wait=20"})
            states.append(answer.json()["state"])

        waiters = [threading.Thread(target=wait) for _ in range(60)]
        for waiter in waiters:
            waiter.start()
        assert client.get("/livez").elapsed.total_seconds() < 5
        served.finish(job_id)
        for waiter in waiters:
            waiter.join()
    assert states == ["succeeded"] * 60


def test_events_arrive_while_the_job_runs_and_end_with_it(served):
    job_id = train_job(served)
    received, heartbeats = [], []
    with served.client.stream("GET", f"/v1/jobs/{job_id}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()

        def next_event():
            block = []
            for line in lines:
                if not line and block:
                    return parsed("\n".join(block) + "\n\n")[0]
                if line.startswith(":"):
                    heartbeats.append(line)
                elif line:
                    block.append(line)
            return None

        received.append(next_event())
        time.sleep(0.5)  # nothing happens, and the connection shows that it lives
        claim = served.claim(job_id)
        received.append(next_event())
        assert heartbeats
        for step in (1, 2):
            progress(served, claim, step)
            received.append(next_event())
        with served.store.database.transaction() as session:
            jobs.succeed(session, claim)
        received.append(next_event())
        assert next_event() is None  # the server has ended the stream
    assert [(kind, data.get("state", data.get("step"))) for _, kind, data in received] == [
        ("state", "queued"),
        ("state", "running"),
        ("progress", 1),
        ("progress", 2),
        ("state", "succeeded"),
    ]
    assert [id_ for id_, _, _ in received] == sorted({id_ for id_, _, _ in received})
    assert all(data["at"].endswith("Z") for _, _, data in received)


def test_events_resume_after_the_last_event_id(api):
    job_id = train_job(api)
    claim = api.claim(job_id)
    for step in range(3):
        progress(api, claim, step)
    with api.store.database.transaction() as session:
        jobs.succeed(session, claim)

    everything = parsed(api.client.get(f"/v1/jobs/{job_id}/events").text)
    assert len(everything) == 6
    for seen in range(1, 6):
        headers = {"Last-Event-ID": str(everything[seen - 1][0])}
        rest = parsed(api.client.get(f"/v1/jobs/{job_id}/events", headers=headers).text)
        assert rest == everything[seen:]

    headers = {"Last-Event-ID": str(everything[-1][0])}
    over = api.client.get(f"/v1/jobs/{job_id}/events", headers=headers)
    assert over.status_code == 204  # an EventSource does not come back after this
    odd = api.client.get(f"/v1/jobs/{job_id}/events", headers={"Last-Event-ID": "x"})
    assert odd.status_code == 422
    assert odd.json()["errors"][0]["header"] == "Last-Event-ID"


def test_more_events_than_one_batch(api):
    job_id = train_job(api)
    claim = api.claim(job_id)
    with api.store.database.transaction() as session:
        for step in range(230):
            jobs.record_progress(session, claim, {"step": step})
        jobs.succeed(session, claim)
    events = parsed(api.client.get(f"/v1/jobs/{job_id}/events").text)
    steps = [data["step"] for _, kind, data in events if kind == "progress"]
    assert steps == list(range(230))


def test_a_released_attempt_is_not_counted(api):
    """A training that yields to another one starts again without using an attempt."""
    training = api.explanation()["job"]["waiting_for"]
    for _ in range(2):
        claim = api.claim(training)
        assert api.client.get(f"/v1/jobs/{training}").json()["attempt"] == 1
        with api.store.database.transaction() as session:
            jobs.release(session, claim)
    assert api.client.get(f"/v1/jobs/{training}").json()["attempt"] == 0
