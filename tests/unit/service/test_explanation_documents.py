"""Explanations contain the stored bytes of their result."""

from __future__ import annotations

import json
import time
from pathlib import Path

import psutil
import pytest

from d4explain.contracts.scopes import DEFAULT_TENANT
from store.catalogue import explanations

MANY_WARNINGS = 30_000  # of 66 bytes each: sent in chunks


def answered(api, warning_count=0):
    posted = api.explanation()
    warnings = [f"{number:08} " + "é{,]" * 10 for number in range(warning_count)]
    result = api.result().model_copy(update={"warnings": warnings})
    api.finish_explanation(posted, result)
    with api.store.database.reading() as session:
        digest = explanations.get(session, posted["id"], tenant=DEFAULT_TENANT).result_digest
    return f"/v1/explanations/{posted['id']}", result, digest


def file_of(api, digest):
    return Path(api.store.settings.artifacts) / digest[:2] / digest


@pytest.mark.parametrize("warning_count", [0, MANY_WARNINGS])
@pytest.mark.parametrize("artifacts", ["", "memory://documents"])
def test_the_result_is_the_stored_one(deployed, warning_count, artifacts):
    api = deployed(artifacts=artifacts)
    address, result, digest = answered(api, warning_count)
    answer = api.client.get(address)
    assert answer.headers["content-type"] == "application/json"
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert answer.json()["result"] == result.model_dump(mode="json")
    assert api.store.artifacts.of("default").get(digest) in answer.content
    listed = api.client.get("/v1/explanations").json()["items"][0]
    assert answer.json() == {**listed, "result": answer.json()["result"]}


def test_a_304_reads_no_result(api):
    address, _, digest = answered(api, MANY_WARNINGS)
    tag = api.client.get(address).headers["etag"]
    file_of(api, digest).unlink()
    known = api.client.get(address, headers={"If-None-Match": tag})
    assert known.status_code == 304
    assert known.headers["etag"] == tag
    assert api.client.get(address, headers={"If-None-Match": '"x"'}).status_code == 500


@pytest.mark.parametrize("warning_count", [0, MANY_WARNINGS])
def test_a_corrupt_result_is_not_sent(api, warning_count):
    address, _, digest = answered(api, warning_count)
    file = file_of(api, digest)
    damaged = bytearray(file.read_bytes())
    damaged[-100] ^= 1
    file.write_bytes(damaged)
    for form in ("json", "svg"):
        answer = api.client.get(f"{address}?format={form}")
        assert answer.status_code == 500
        assert answer.json()["type"] == "urn:d4explain:problem:internal"


def test_waiting_for_a_large_result_gives_the_same_document(api):
    body = {
        "kind": "counterfactual",
        "gnn": api.gnn(),
        "dataset": api.dataset(),
        "graph": api.graph(),
    }
    headers = {"Idempotency-Key": "once", "Prefer": "wait=1"}
    posted = api.client.post("/v1/explanations", json=body, headers=headers)
    assert posted.status_code == 202
    warnings = ["a warning of some length"] * 100_000
    api.finish_explanation(posted.json(), api.result().model_copy(update={"warnings": warnings}))
    again = api.client.post("/v1/explanations", json=body, headers=headers)
    assert again.status_code == 200
    assert len(again.content) > 2**20
    assert again.content == api.client.get(again.headers["location"]).content


def test_the_file_is_closed_when_the_client_disconnects(served):
    address, _, digest = answered(served, 20 * MANY_WARNINGS)
    with served.client.stream("GET", address) as stream:
        chunks = stream.iter_raw()  # keep a reference: the connection closes with it
        assert next(chunks)
        assert digest in json.dumps(psutil.Process().open_files())
    deadline = time.monotonic() + 10
    while digest in json.dumps(psutil.Process().open_files()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
