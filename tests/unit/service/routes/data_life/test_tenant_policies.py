"""Quotas and retention times over HTTP."""

from __future__ import annotations

import pytest

from store.database import quotas


def limit(api, **limits: float) -> None:
    with api.store.database.transaction() as session:
        quotas.set_for_tenant(session, "default", dict(limits))


def test_a_request_beyond_the_quota_says_limit_and_use(api):
    gnn, dataset = api.gnn(), api.dataset()
    asked = {"gnn": gnn, "dataset": dataset, "explainer": "search", "judges": "none"}
    limit(api, jobs=1)
    first = api.explanation(**asked, aim="minimal")
    before = api.written()
    body = {"kind": "counterfactual", "graph": api.graph(), "aim": "minimal", **asked}
    refused = api.client.post("/v1/explanations", json={**body, "seed": 2})
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) > 0
    problem = refused.json()
    assert problem["type"] == "urn:d4explain:problem:quota-exceeded"
    assert problem["quota"] == {"name": "jobs", "limit": 1, "used": 2}
    assert "queued and running jobs" in problem["detail"]
    after = api.written()
    assert {**after, "artifacts": 0} == {**before, "artifacts": 0}  # its file goes after a day
    shown = api.client.get("/v1/quotas").json()
    assert (shown["jobs"], shown["stored_bytes"]["limit"]) == ({"limit": 1, "used": 1}, None)
    assert shown["stored_bytes"]["used"] > 0
    api.client.post(f"/v1/jobs/{first['job']['id']}/cancel")
    assert api.client.post("/v1/explanations", json={**body, "seed": 2}).status_code == 202


def test_other_requests_that_add_something_count_too(api):
    limit(api, stored_bytes=1)
    graph = {"nodes": [{"id": 0}, {"id": 1}], "edges": [{"source": 0, "target": 1}]}
    refused = api.client.post("/v1/datasets", json={"name": "set", "graphs": [graph]})
    assert refused.status_code == 429
    assert refused.json()["quota"]["name"] == "stored_bytes"
    assert api.client.get("/v1/datasets").json()["items"] == []


def test_an_evaluation_counts_with_its_shards_and_is_refused_as_a_whole(api):
    gnn, dataset = api.gnn(), api.dataset()
    body = {"gnn": gnn, "dataset": dataset, "test": dataset, "explainers": ["search"]}
    body |= {"metrics": [], "metadata": {"team": "risk"}}
    limit(api, jobs=1)
    before = api.written()
    refused = api.client.post("/v1/evaluations", json=body)
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) > 0
    assert refused.json()["quota"] == {"name": "jobs", "limit": 1, "used": 2}
    assert {**api.written(), "artifacts": 0} == {**before, "artifacts": 0}
    limit(api, jobs=2)
    assert api.client.post("/v1/evaluations", json=body).status_code == 202


def test_requests_per_second_are_limited(api):
    limit(api, requests_per_second=2)
    answers = [api.client.get("/v1/jobs") for _ in range(40)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert refused[0].headers["Retry-After"] == "1"
    assert refused[0].json()["quota"]["name"] == "requests_per_second"
    assert api.client.get("/livez").status_code == 200


def test_retention_times_are_set_and_returned(api):
    kept = dict.fromkeys(("explanations", "jobs", "networks", "datasets"))
    assert api.client.get("/v1/retention").json() == kept
    changed = api.client.put("/v1/retention", json={"explanations": 90, "jobs": 0})
    assert changed.json() == {**kept, "explanations": 90.0}
    assert api.client.get("/v1/retention").json() == changed.json()
    assert api.client.put("/v1/retention", json={}).json() == kept


@pytest.mark.parametrize("body", [{"explanations": -1}, {"gnns": 3}, {"jobs": "soon"}, []])
def test_wrong_times_are_refused(api, body):
    assert api.client.put("/v1/retention", json=body).status_code == 422
