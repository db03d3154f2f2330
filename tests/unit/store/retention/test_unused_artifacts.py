"""No file that a row needs is deleted, whatever happens at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from store.artifacts.artifact_store import ArtifactStore
from store.artifacts.files import TenantArtifacts
from store.catalogue import datasets
from store.database.sessions import Database
from store.database.tables import ArtifactEntry, TenantUsage
from store.errors import ArtifactDeleted
from store.retention import purges, unused_artifacts
from tests.store_rows import create_dataset

UPLOADS = 30
MAX_SECONDS = 60.0
CONTENTS = [b"first", b"second"]


@pytest.fixture
def artifacts(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(str(tmp_path / "artifacts"))


@pytest.fixture
def stored(database: Database, artifacts: ArtifactStore) -> Iterator[Database]:
    """A database that looks at the files of `artifacts`."""
    opened = Database(
        database.engine.url.render_as_string(),
        artifact_size=lambda tenant, digest: artifacts.of(tenant).size(digest),
    )
    yield opened
    opened.close()


def create(database: Database, digest: str, tenant: str = "default") -> str:
    with database.transaction() as session:
        return create_dataset(session, digest, tenant=tenant).id


def delete(database: Database, dataset_id: str, tenant: str = "default") -> None:
    with database.transaction() as session:
        datasets.delete(session, dataset_id, tenant)


def stored_bytes(database: Database, tenant: str = "default") -> int:
    with database.reading() as session:
        query = select(TenantUsage.stored_bytes).where(TenantUsage.tenant_id == tenant)
        return session.scalar(query) or 0


def test_a_row_cannot_refer_to_a_missing_file(stored: Database, artifacts: ArtifactStore) -> None:
    with pytest.raises(ArtifactDeleted):
        create(stored, "0" * 64)
    with stored.reading() as session:
        assert session.scalars(select(ArtifactEntry)).all() == []


def test_a_file_that_was_deleted_after_it_was_stored_is_noticed(
    stored: Database, artifacts: ArtifactStore
) -> None:
    """The upload stores its file before the deletion and its row after it."""
    digest = artifacts.of("default").put(b"content")
    delete(stored, create(stored, digest))
    assert artifacts.of("default").put(b"content") == digest  # found: nothing is written
    assert unused_artifacts.delete_released(stored, artifacts).count == 1
    with pytest.raises(ArtifactDeleted):
        create(stored, digest)
    artifacts.of("default").put(b"content")
    create(stored, digest)
    assert unused_artifacts.delete_released(stored, artifacts).count == 0
    assert artifacts.of("default").get(digest) == b"content"


def test_a_row_that_comes_before_the_deletion_keeps_the_file(
    stored: Database, artifacts: ArtifactStore
) -> None:
    digest = artifacts.of("default").put(b"content")
    delete(stored, create(stored, digest))
    create(stored, digest)
    assert unused_artifacts.delete_released(stored, artifacts).count == 0
    assert artifacts.of("default").exists(digest)


def test_files_of_interrupted_uploads_are_deleted_after_a_day(
    stored: Database, artifacts: ArtifactStore
) -> None:
    digest = artifacts.of("default").put(b"interrupted")
    unused_artifacts.release_unknown(stored, artifacts)
    assert unused_artifacts.delete_released(stored, artifacts).count == 0
    unused_artifacts.release_unknown(stored, artifacts, min_age_seconds=-1)
    assert unused_artifacts.delete_released(stored, artifacts).count == 1
    assert not artifacts.of("default").exists(digest)


def test_an_interrupted_deletion_is_finished_later(
    stored: Database, artifacts: ArtifactStore
) -> None:
    digest = artifacts.of("default").put(b"content")
    delete(stored, create(stored, digest))

    class Interrupted(Exception):  # noqa: N818
        pass

    class FailingFiles(TenantArtifacts):
        def delete(self, digest: str) -> bool:
            super().delete(digest)
            raise Interrupted

    class Failing(ArtifactStore):
        def of(self, tenant: str) -> TenantArtifacts:
            files = super().of(tenant)
            return FailingFiles(files._opened, files._writers)

    with pytest.raises(Interrupted):
        unused_artifacts.delete_released(stored, Failing(artifacts.url))
    with pytest.raises(ArtifactDeleted):  # the file is gone, and the mark says that it may be
        create(stored, digest)
    unused_artifacts.delete_released(stored, artifacts)
    assert stored_bytes(stored) == 0


def test_a_release_while_others_delete_is_not_lost(
    stored: Database, artifacts: ArtifactStore
) -> None:
    """The last row that needs a file is deleted after the deletion has looked for rows."""
    digest = artifacts.of("default").put(b"content")
    first, last = create(stored, digest), create(stored, digest)
    delete(stored, first)
    reads: list[Session] = []

    class Interrupted(Database):
        @contextmanager
        def reading(self) -> Iterator[Session]:
            with super().reading() as session:
                yield session
            reads.append(session)
            if len(reads) == 2:  # first what is released, then the rows that need it
                delete(stored, last)

    database = Interrupted(
        stored.engine.url.render_as_string(),
        artifact_size=lambda tenant, digest: artifacts.of(tenant).size(digest),
    )
    unused_artifacts.delete_released(database, artifacts)
    database.close()
    unused_artifacts.delete_released(stored, artifacts)
    assert not artifacts.of("default").exists(digest)
    assert stored_bytes(stored) == 0


def test_stored_bytes_count_shared_content_once_per_tenant(
    stored: Database, artifacts: ArtifactStore
) -> None:
    made = {}
    for tenant in ("default", "other"):
        digest = artifacts.of(tenant).put(b"12345")
        made[tenant] = [create(stored, digest, tenant) for _ in range(2)]
    assert [stored_bytes(stored, tenant) for tenant in made] == [5, 5]
    delete(stored, made["default"][0])
    unused_artifacts.delete_released(stored, artifacts)
    assert stored_bytes(stored) == 5
    delete(stored, made["default"][1])
    unused_artifacts.delete_released(stored, artifacts)
    assert [stored_bytes(stored, tenant) for tenant in made] == [0, 5]
    assert artifacts.of("other").get(digest) == b"12345"
    assert not artifacts.of("default").exists(digest)


def test_artifacts_of_earlier_versions_are_entered(
    database: Database, stored: Database, artifacts: ArtifactStore
) -> None:
    digest = artifacts.of("default").put(b"earlier")
    create(stored, digest)
    with database.transaction() as session:
        session.query(ArtifactEntry).delete()
        session.query(TenantUsage).delete()
    unused_artifacts.compare_with_rows(stored)
    assert stored_bytes(stored) == len(b"earlier")
    unused_artifacts.compare_with_rows(stored)
    assert stored_bytes(stored) == len(b"earlier")


def test_the_report_says_what_is_gone_kept_and_left(
    stored: Database, artifacts: ArtifactStore
) -> None:
    shared, own = artifacts.of("default").put(b"shared"), artifacts.of("default").put(b"own")
    kept = create(stored, shared)
    gone, sharing = create(stored, own), create(stored, shared)
    for dataset_id in (gone, sharing):
        delete(stored, dataset_id)
    report = purges.purge(stored, artifacts)
    assert report.is_complete
    assert (report.deleted.count, report.deleted.size) == (1, 3)
    found = {resource.id: resource for resource in report.resources}
    assert (found[gone].file_count, found[gone].kept, found[gone].left) == (1, (), ())
    assert [one.users for one in found[sharing].kept] == [(kept,)]
    assert purges.purge(stored, artifacts).resources == ()  # verified once

    again = artifacts.of("default").put(b"again")
    delete(stored, create(stored, again))
    unused_artifacts.delete_released(stored, artifacts)
    artifacts.of("default").put(b"again")  # an upload that has no row yet
    report = purges.purge(stored, artifacts)
    assert not report.is_complete
    assert report.resources[0].left == (again,)


def race(url: str, artifacts: ArtifactStore) -> int:
    """Uploads and deletes the same contents in threads while another one deletes unused files.

    Every thread has its own `Database`, as processes have. Returns the number of uploads.
    """
    stop = threading.Event()
    errors: list[BaseException] = []
    uploads = [0, 0, 0]

    def opened() -> Database:
        return Database(
            url, artifact_size=lambda tenant, digest: artifacts.of("default").size(digest)
        )

    def upload(thread: int) -> None:
        database = opened()
        try:
            while not stop.is_set():
                content = CONTENTS[uploads[thread] % len(CONTENTS)]
                digest = artifacts.of("default").put(content)
                try:
                    dataset_id = create(database, digest)
                except ArtifactDeleted:
                    continue  # as a client that repeats its request
                assert artifacts.of("default").get(digest) == content
                time.sleep(0.001)
                assert artifacts.of("default").get(digest) == content
                delete(database, dataset_id)
                uploads[thread] += 1
        except BaseException as error:
            errors.append(error)
        finally:
            database.close()

    def sweep() -> None:
        database = opened()
        try:
            while not stop.is_set():
                unused_artifacts.release_unknown(database, artifacts, min_age_seconds=-1)
                unused_artifacts.delete_released(database, artifacts)
        except BaseException as error:
            errors.append(error)
        finally:
            database.close()

    threads = [threading.Thread(target=upload, args=(thread,)) for thread in range(len(uploads))]
    threads += [threading.Thread(target=sweep) for _ in range(2)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + MAX_SECONDS
    while sum(uploads) < UPLOADS and not errors and time.monotonic() < deadline:
        time.sleep(0.05)
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
    database = opened()
    unused_artifacts.release_unknown(database, artifacts, min_age_seconds=-1)
    unused_artifacts.delete_released(database, artifacts)
    assert list(artifacts.listed()) == []
    assert stored_bytes(database) == 0
    database.close()
    return sum(uploads)


def test_uploads_race_with_the_deletion_of_the_same_content(
    database: Database, artifacts: ArtifactStore
) -> None:
    assert race(database.engine.url.render_as_string(), artifacts) >= UPLOADS
