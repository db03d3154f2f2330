"""`X-Request-ID` and `traceparent`: checked, answered, and stored with every job of the request."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from service.http.bodies import LARGE_BODY_BYTES
from store import jobs
from store.database.origins import Origin, of_jobs, valid_traceparent
from store.database.tables import Job
from store.database.tables.audit import AuditEntry

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
UUID = "c9b5b0a2-7f4e-4f9e-9d2b-0d6f3a1c2e4f"


def origins_of_all_jobs(api):
    with api.store.database.reading() as session:
        rows = session.scalars(select(Job)).all()
        return {row.kind.value: of_jobs(session, [row.id])[row.id] for row in rows}


def explain(api, headers, **changes):
    body = {
        "kind": "counterfactual",
        "gnn": api.gnn(),
        "dataset": api.dataset(),
        "graph": api.graph(),
        **changes,
    }
    return api.client.post("/v1/explanations", json=body, headers=headers)


def test_an_id_comes_back_and_a_missing_one_is_made(api):
    assert api.client.get("/livez", headers={"X-Request-ID": UUID}).headers["x-request-id"] == UUID
    made = api.client.get("/livez").headers["x-request-id"]
    assert re.fullmatch(r"req_\w+", made)
    assert api.client.get("/livez").headers["x-request-id"] != made


@pytest.mark.parametrize("sent", ["", "a b", "x" * 65, "a\tb", 'a"b', "../x", "ä", "{}"])
def test_an_invalid_id_is_refused_and_says_what_is_allowed(api, sent):
    before = api.written()
    answer = explain(api, {})
    assert answer.status_code == 202
    before = api.written()
    answer = api.client.post("/v1/datasets", json={}, headers={"X-Request-ID": sent.encode()})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    [error] = answer.json()["errors"]
    assert error["header"] == "X-Request-ID"
    assert "1 to 64 letters, digits, dots, hyphens and underscores" in error["detail"]
    assert re.fullmatch(r"req_\w+", answer.headers["x-request-id"])
    assert api.written() == before


@given(st.text(alphabet="0123456789abcdef-", max_size=60) | st.just(TRACEPARENT))
def test_only_traceparents_of_the_standard_are_used(text):
    valid = valid_traceparent(text)
    parts = text.split("-")
    is_standard = (
        [len(part) for part in parts] == [2, 32, 16, 2]
        and parts[0] != "ff"
        and set(parts[1]) != {"0"}
        and set(parts[2]) != {"0"}
    )
    assert (valid == text) is is_standard
    assert (valid is None) is not is_standard


@pytest.mark.parametrize(
    "header",
    [
        None,
        "00-" + "0" * 32 + "-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        TRACEPARENT.upper(),
    ],
)
def test_invalid_traceparents_are_ignored(api, header):
    headers = {"X-Request-ID": UUID} | ({} if header is None else {"traceparent": header})
    assert explain(api, headers).status_code == 202
    assert origins_of_all_jobs(api)["counterfactual"] == Origin(UUID, None)


def test_every_job_of_a_request_has_its_origin(deployed):
    """Also the trainings that the explanation waits for, and the provisional answer."""
    api = deployed()
    headers = {"X-Request-ID": UUID, "traceparent": TRACEPARENT}
    assert explain(api, headers, dataset=many(api)).status_code == 202
    found = origins_of_all_jobs(api)
    kinds = {"train", "witnesses", "provisional", "counterfactual"}
    assert {kind: found[kind] for kind in kinds} == dict.fromkeys(kinds, Origin(UUID, TRACEPARENT))


def many(api):
    ring = {"edge_index": [[0, 1, 2], [1, 2, 0]], "x": [[1.0]] * 3, "y": 0}
    answer = api.client.post("/v1/datasets", json={"name": "rings", "graphs": [ring] * 150})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def test_requests_that_are_committed_together_keep_their_ids(api):
    gnn, dataset = api.gnn(), api.dataset()
    ids = [f"request-{number}" for number in range(12)]

    def ask(request_id):
        headers = {"X-Request-ID": request_id}
        return explain(api, headers, gnn=gnn, dataset=dataset).json()["job"]["id"]

    with ThreadPoolExecutor(12) as threads:
        job_ids = list(threads.map(ask, ids))
    with api.store.database.reading() as session:
        found = of_jobs(session, job_ids)
    assert [found[job_id].request_id for job_id in job_ids] == ids


def test_a_large_body_which_another_process_reads_keeps_its_id(deployed):
    api = deployed()
    gnn = api.gnn()
    body = json.dumps({"graph": api.graph()}) + " " * LARGE_BODY_BYTES
    answer = api.client.post(
        f"/v1/gnns/{gnn}/predictions",
        content=body,
        headers={
            "Content-Type": "application/json", "Prefer": "respond-async", "X-Request-ID": UUID,
        },
    )  # fmt: skip
    assert answer.status_code == 202, answer.text
    assert origins_of_all_jobs(api)["predict"].request_id == UUID


def test_a_job_that_is_claimed_again_keeps_its_origin(api):
    headers = {"X-Request-ID": UUID, "traceparent": TRACEPARENT}
    posted = explain(api, headers, explainer="search", aim="minimal", judges="none").json()
    claim = api.claim(posted["job"]["id"])
    with api.store.database.transaction() as session:
        jobs.release(session, claim)
    assert api.claim(posted["job"]["id"]).origin == Origin(UUID, TRACEPARENT)


def test_the_audit_log_has_the_id(api):
    """A UUID without its hyphens fits into the column."""
    assert explain(api, {"X-Request-ID": UUID}).status_code == 202
    assert explain(api, {"X-Request-ID": "short-id"}).status_code == 202
    with api.store.database.reading() as session:
        found = set(session.scalars(select(AuditEntry.request_id)))
    assert {UUID.replace("-", ""), "short-id"} <= found
