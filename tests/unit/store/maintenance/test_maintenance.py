"""Backups, the check of artifacts, and the findings about a deployment."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
from sqlalchemy import update

from store import jobs
from store.artifacts.files import digest_of
from store.catalogue import explanations
from store.database.artifact_uses import referenced
from store.database.sessions import Database, now
from store.database.tables import Lead, Table, Worker
from store.errors import Conflict
from store.jobs import JobKind, Queue, workers
from store.maintenance.backup import back_up
from store.maintenance.consistency import check
from store.maintenance.deployment import Status, findings
from store.settings import Settings
from store.store import Store
from tests.store_rows import claim_job, create_dataset, create_explanation, create_ready_gnn


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(Settings(data_dir=tmp_path / "data"))


def explained(store: Store, result: bytes = b"a result") -> str:
    """An explanation whose artifacts are all stored; returns its id."""
    put = store.artifacts.of("default").put
    with store.database.transaction() as session:
        gnn = create_ready_gnn(session, put(b"weights"))
        dataset = create_dataset(session, put(b"graphs"))
        request = put(b"request")
        explanation, job = create_explanation(session, gnn, dataset, request_digest=request)
        training = claim_job(session, str(job.waiting_for))
        jobs.record_checkpoint(session, training, put(b"checkpoint"), 3)
        explanation.result_digest = put(result)
        return explanation.id


def test_every_column_with_a_digest_counts_as_a_reference(store: Store) -> None:
    """A new column of digests must be listed, or the cleanup would delete its artifacts."""
    names = {"key", "sha256", "body_sha256", "weights_sha256", "graphs_sha256"}  # no artifacts
    columns = {
        column
        for table in Table.metadata.sorted_tables
        for column in table.columns
        if column.name.endswith("digest") and column.name not in names
        if table.name != "artifacts"  # the ledger of what the other tables refer to
    }
    from store.database.artifact_uses import COLUMNS  # noqa: PLC0415

    listed = {getattr(column, "expression", column) for _, column, _ in COLUMNS}
    assert {f"{column.table}.{column.name}" for column in columns} <= {
        f"{column.table}.{column.name}" for column in listed if hasattr(column, "table")
    }
    explained(store)
    with store.database.reading() as session:
        assert {use.what for use in referenced(session)} >= {"weights", "request", "checkpoint"}


def test_missing_and_corrupt_artifacts_are_found(store: Store) -> None:
    id_ = explained(store)
    sound = check(store.database, store.artifacts, read=True)
    assert (sound.faults, sound.unused) == ([], 0)
    store.artifacts.of("default").put(b"unused")
    folder = store.artifacts.folder
    assert folder is not None
    digest = digest_of(b"a result")
    (folder / digest[:2] / digest).write_bytes(b"b result")
    assert check(store.database, store.artifacts).faults == []
    [corrupt] = check(store.database, store.artifacts, read=True).faults
    assert (corrupt.row, corrupt.what) == (id_, "result")
    store.artifacts.of("default").delete(digest)
    store.artifacts.of("default").delete(digest_of(b"checkpoint"))
    found = check(store.database, store.artifacts, read=True)
    assert [(use.row, use.what) for use in found.faults] == [(id_, "result")]
    assert len(found.missing) == 2  # the training starts again without its checkpoint
    assert found.unused == 1


def test_a_backup_during_writes_is_consistent_with_artifacts_copied_later(
    store: Store, tmp_path: Path
) -> None:
    stop = threading.Event()
    written = []

    def write() -> None:
        while not stop.is_set():
            digest = store.artifacts.of("default").put(b"request %d" % len(written))
            with store.database.transaction() as session:
                job = jobs.submit(
                    session, tenant="default", kind=JobKind.PREDICT, request_digest=digest
                )
            written.append(job.id)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while len(written) < 20:
            stop.wait(0.01)
        restored = tmp_path / "restored"
        restored.mkdir()
        before = len(written)
        back_up(store.database, restored / "d4explain.sqlite")
    finally:
        stop.set()
        writer.join()
    assert store.artifacts.folder is not None
    shutil.copytree(store.artifacts.folder, restored / "artifacts")
    with Store.open(Settings(data_dir=restored)) as copy:
        found = check(copy.database, copy.artifacts, read=True)
        assert found.faults == []
        assert found.rows >= before
        with copy.database.reading() as session:
            assert jobs.get(session, written[0], tenant="default").state == "queued"


def test_a_backup_replaces_no_file_and_needs_sqlite(store: Store, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    assert back_up(store.database, target) == target.stat().st_size
    with pytest.raises(Conflict, match="exists; name a new file"):
        back_up(store.database, target)
    server = Database("postgresql+psycopg://nobody@127.0.0.1:1/none")
    with pytest.raises(Conflict, match="pg_dump"):
        back_up(server, tmp_path / "another")
    server.close()


def failed(settings: Settings) -> dict[str, str]:
    return {
        found.name: f"{found.detail} → {found.fix}"
        for found in findings(settings)
        if found.status is Status.FAILED
    }


def test_the_findings_about_a_deployment_name_each_fault(store: Store, tmp_path: Path) -> None:
    settings = store.settings
    found = failed(settings)
    assert "set D4_REDIS_URL" in found.pop("broker")
    assert "start an API" in found.pop("dispatcher")
    for queue in Queue:
        assert f"python -m worker --queues {queue}" in found.pop(f"queue {queue}")
    assert found == {}

    id_ = explained(store)
    with store.database.transaction() as session:
        workers.beat(session, name="w", queues=list(Queue), device="cpu", pid=1)
        session.add(Lead(name="dispatcher", owner="api", lease_until=0.0))
        session.flush()
        session.execute(update(Lead).values(lease_until=now() + 60))
    assert set(failed(settings)) == {"broker"}
    with store.database.transaction() as session:
        session.execute(update(Worker).values(machine="another"))
    assert set(failed(settings)) == {"broker", "SQLite"}
    with store.database.reading() as session:
        digest = explanations.get(session, id_, tenant="default").result_digest
    assert digest is not None
    store.artifacts.of("default").delete(digest)
    assert "1 of the newest 1 results" in failed(settings)["results"]

    elsewhere = settings.model_copy(update={"artifacts": "/proc/nowhere"})
    assert "/proc/nowhere" in failed(elsewhere)["artifacts"]
    broken = settings.model_copy(update={"redis_url": "redis://:sesame@127.0.0.1:1/0"})
    assert "does not answer" in failed(broken)["broker"]
    down = "postgresql+psycopg://d4:sesame@127.0.0.1:1/d4"
    unreachable = settings.model_copy(update={"database_url": down})
    assert "correct D4_DATABASE_URL" in failed(unreachable)["database"]
    assert "sesame" not in str([list(findings(one)) for one in (broken, unreachable)])
