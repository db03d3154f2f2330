"""Responses when the database or a disk fails during a request."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from store.artifacts.artifact_store import ArtifactStore
from store.artifacts.disk_space import DiskSpace, is_disk_full
from store.artifacts.files import TenantArtifacts

KEY = {"Idempotency-Key": "one"}


class Disk(DiskSpace):
    """A disk whose free space the test sets."""

    def __init__(self) -> None:
        super().__init__({})
        self.shortage_text: str | None = None

    def shortage(self) -> str | None:
        return self.shortage_text or super().shortage()


class Files(ArtifactStore):
    """Artifacts on a disk with limited space."""

    left = 10**9

    def of(self, tenant: str) -> TenantArtifacts:
        return FilesOfTenant(self, super().of(tenant))


class FilesOfTenant(TenantArtifacts):
    def __init__(self, files: Files, artifacts: TenantArtifacts) -> None:
        super().__init__(artifacts._opened, artifacts._writers)
        self.files = files

    def put(self, data: bytes) -> str:
        if len(data) > self.files.left:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().put(data)


@pytest.fixture
def opened_store(opened_store):
    return replace(opened_store, disk=Disk(), artifacts=Files(opened_store.artifacts.url))


@contextmanager
def failing_commits(api, error, *, committed: bool) -> Iterator[None]:
    """Makes COMMIT raise an error, whether or not it was executed."""
    dialect = api.store.database.engine.dialect
    commit = dialect.do_commit

    def fail(connection) -> None:
        if committed:
            commit(connection)
        raise error

    dialect.do_commit = fail
    try:
        yield
    finally:
        del dialect.do_commit


def sqlite_error(message: str, code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode = code
    return error


def body(api) -> dict[str, object]:
    return {"name": "a set", "graphs": [api.graph()]}


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "not committed"])
def test_an_unknown_outcome_is_reported_and_a_retry_with_the_key_resolves_it(api, committed):
    before = api.written()["datasets"]
    lost = sqlite_error("disk I/O error", sqlite3.SQLITE_IOERR_FSYNC)
    with failing_commits(api, lost, committed=committed):
        answer = api.client.post("/v1/datasets", json=body(api), headers=KEY)
    assert answer.status_code == 503
    assert answer.json()["type"].endswith("outcome-unknown")
    assert "same Idempotency-Key" in answer.json()["detail"]
    assert "nothing was accepted" not in answer.text
    assert int(answer.headers["retry-after"]) > 0

    again = api.client.post("/v1/datasets", json=body(api), headers=KEY)
    assert again.status_code == 201
    assert ("idempotency-replayed" in again.headers) is committed
    assert api.written()["datasets"] == before + 1


def test_explanations_in_one_transaction_all_get_the_unknown_outcome(api):
    posted = {"kind": "counterfactual", "gnn": api.gnn(), "dataset": api.dataset()}
    posted["graph"] = api.graph()
    lost = sqlite_error("disk I/O error", sqlite3.SQLITE_IOERR_WRITE)
    with failing_commits(api, lost, committed=True):
        answer = api.client.post("/v1/explanations", json=posted, headers=KEY)
    assert answer.json()["type"].endswith("outcome-unknown")
    again = api.client.post("/v1/explanations", json=posted, headers=KEY)
    assert (again.status_code, again.headers["idempotency-replayed"]) == (202, "true")
    assert api.written()["explanations"] == 1


def test_without_a_key_the_response_advises_to_check_first(api):
    lost = sqlite_error("disk I/O error", sqlite3.SQLITE_IOERR_FSYNC)
    with failing_commits(api, lost, committed=True):
        answer = api.client.post("/v1/datasets", json=body(api))
    assert "Check whether it was executed" in answer.json()["detail"]


def test_a_commit_that_the_database_rejected_is_not_unknown(api):
    before = api.written()
    busy = sqlite_error("database is locked", sqlite3.SQLITE_BUSY)
    with failing_commits(api, busy, committed=False):
        answer = api.client.post("/v1/datasets", json=body(api), headers=KEY)
    assert answer.status_code == 503
    assert answer.json()["type"].endswith("database-unavailable")
    after = api.written()
    assert {**after, "artifacts": 0} == {**before, "artifacts": 0}


# A full disk


def test_a_database_on_a_full_disk_is_507_and_not_ready(api):
    before = api.written()
    full = sqlite_error("database or disk is full", sqlite3.SQLITE_FULL)
    with failing_commits(api, full, committed=False):
        answer = api.client.post("/v1/datasets", json=body(api), headers=KEY)
    assert answer.status_code == 507
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"].endswith("disk-full")
    state = api.client.get("/readyz")
    assert state.status_code == 503
    assert state.json()["accepts_submissions"] is False
    assert any(reason.startswith("disk: ") for reason in state.json()["reasons"])
    after = api.written()
    assert {**after, "artifacts": 0} == {**before, "artifacts": 0}


def test_new_work_is_rejected_before_writes_and_old_keys_still_work(api):
    disk, gnn = api.store.disk, api.gnn()
    dataset = api.client.post("/v1/datasets", json=body(api), headers=KEY).json()["id"]
    before = api.written()
    disk.shortage_text = "only 0.0 MiB are free for artifacts"
    explanation = {"kind": "counterfactual", "gnn": gnn, "dataset": dataset, "graph": api.graph()}
    requests = {
        "/v1/datasets": {"name": "another", "graphs": [api.graph()]},
        "/v1/denoisers": {"gnn": gnn, "dataset": dataset, "objective": "counterfactual"},
        "/v1/explanations": explanation,
        f"/v1/gnns/{gnn}/predictions": {"graphs": [api.graph()]},
    }
    for address, sent in requests.items():
        answer = api.client.post(address, json=sent)
        assert answer.status_code == 507, address
        assert answer.json()["detail"] == (
            "The disk is full: only 0.0 MiB are free for artifacts. Nothing was accepted. "
            "Send the request again when space is available."
        )
    assert api.written() == before
    again = api.client.post("/v1/datasets", json=body(api), headers=KEY)
    assert (again.status_code, again.json()["id"]) == (201, dataset)

    disk.shortage_text = None  # there is space again
    assert api.client.post("/v1/explanations", json=explanation).status_code == 202


def test_artifacts_on_a_full_disk_are_507(api):
    before = api.written()
    api.store.artifacts.left = 10
    answer = api.client.post("/v1/datasets", json=body(api), headers=KEY)
    assert answer.status_code == 507
    assert answer.json()["type"].endswith("disk-full")
    assert api.written() == before
    api.store.artifacts.left = 10**9
    assert api.client.post("/v1/datasets", json=body(api), headers=KEY).status_code == 201


def test_other_file_errors_are_not_a_full_disk():
    assert is_disk_full(OSError(errno.EDQUOT, "Disk quota exceeded"))
    assert not is_disk_full(OSError(errno.EACCES, "Permission denied"))
    assert not is_disk_full(ValueError("no space left"))
