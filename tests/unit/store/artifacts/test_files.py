from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from d4explain.contracts.scopes import DEFAULT_TENANT
from store import jobs
from store.artifacts.artifact_store import ArtifactStore
from store.artifacts.files import digest_of
from store.database.sessions import Database
from store.errors import ArtifactCorrupt, ArtifactMissing
from store.jobs import JobKind
from store.queue.cleanup import delete_unneeded

DATA = b"some weights"
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture(params=["folder", "memory"])
def artifacts(request: pytest.FixtureRequest, tmp_path: Path) -> ArtifactStore:
    """A local folder, and fsspec's memory file system as an example of remote ones."""
    if request.param == "folder":
        return ArtifactStore(str(tmp_path / "artifacts"))
    return ArtifactStore(f"memory://{tmp_path}")


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_bytes_are_read_by_their_hash(artifacts: ArtifactStore) -> None:
    assert not artifacts.of("default").exists(DIGEST)
    assert artifacts.of("default").put(DATA) == DIGEST
    assert artifacts.of("default").exists(DIGEST)
    assert artifacts.of("default").get(DIGEST) == DATA
    assert artifacts.of("default").put(b"") == hashlib.sha256(b"").hexdigest()
    assert artifacts.of("default").get(hashlib.sha256(b"").hexdigest()) == b""


def test_equal_bytes_are_stored_once(artifacts: ArtifactStore) -> None:
    artifacts.of("default").put(DATA)
    artifacts.of("default").put(DATA)
    assert [listed.digest for listed in artifacts.listed()] == [DIGEST]


@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_put_all_stores_every_artifact(artifacts: ArtifactStore, count: int) -> None:
    several = [b"request %d" % number for number in range(count)]
    artifacts.of("default").put_all(several + several[:3])  # with duplicates
    assert {listed.digest for listed in artifacts.listed()} == {digest_of(one) for one in several}
    assert all(artifacts.of("default").get(digest_of(one)) == one for one in several)


def test_put_all_raises_if_one_artifact_cannot_be_stored(tmp_path: Path) -> None:
    artifacts = ArtifactStore(str(tmp_path))
    (tmp_path / DIGEST[:2]).write_bytes(b"a file instead of the folder")
    with pytest.raises(NotADirectoryError):
        artifacts.of("default").put_all([b"another", DATA, b"a third"])
    assert not [path for path in files(tmp_path) if path.suffix == ".tmp"]


def test_a_deleted_artifact_is_missing(artifacts: ArtifactStore) -> None:
    artifacts.of("default").put(DATA)
    artifacts.of("default").delete(DIGEST)
    artifacts.of("default").delete(DIGEST)
    with pytest.raises(ArtifactMissing, match=DIGEST):
        artifacts.of("default").get(DIGEST)


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "a" * 63, "A" * 64, f"{DIGEST}\n"])
def test_only_digests_become_paths(artifacts: ArtifactStore, name: str) -> None:
    for use in (
        artifacts.of("default").get,
        artifacts.of("default").exists,
        artifacts.of("default").delete,
    ):
        with pytest.raises(ArtifactMissing):
            use(name)


def test_corrupt_bytes_are_never_returned(tmp_path: Path) -> None:
    artifacts = ArtifactStore(str(tmp_path))
    artifacts.of("default").put(DATA)
    (path,) = files(tmp_path)
    path.write_bytes(b"some weightz")
    with pytest.raises(ArtifactCorrupt, match=DIGEST):
        artifacts.of("default").get(DIGEST)


@pytest.mark.parametrize("damaged", [b"", DATA[:3], b"some weightz"])
def test_a_damaged_file_is_replaced_by_the_next_put(tmp_path: Path, damaged: bytes) -> None:
    artifacts = ArtifactStore(str(tmp_path))
    artifacts.of("default").put(DATA)
    (path,) = files(tmp_path)
    path.write_bytes(damaged)
    artifacts.of("default").put(DATA)
    assert artifacts.of("default").get(DIGEST) == DATA


def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    artifacts = ArtifactStore(str(tmp_path))
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full_disk)
        with pytest.raises(OSError, match="No space"):
            artifacts.of("default").put(DATA)
    assert files(tmp_path) == []
    assert not artifacts.of("default").exists(DIGEST)
    artifacts.of("default").put(DATA)
    assert artifacts.of("default").get(DIGEST) == DATA


def test_a_killed_writer_leaves_no_incomplete_artifact(tmp_path: Path) -> None:
    artifacts = ArtifactStore(str(tmp_path))
    # The process dies after the write and before the rename.
    code = (
        "import os, sys; from store.artifacts.artifact_store import ArtifactStore; "
        "os.replace = lambda *_: os._exit(7); "
        "ArtifactStore(sys.argv[1]).of('default').put(sys.argv[2].encode())"
    )
    crash = subprocess.run([sys.executable, "-c", code, str(tmp_path), DATA.decode()], check=False)
    assert crash.returncode == 7
    assert len(files(tmp_path)) == 1  # the unfinished file
    assert not artifacts.of("default").exists(DIGEST)
    assert list(artifacts.listed()) == []
    artifacts.of("default").put(DATA)
    assert artifacts.of("default").get(DIGEST) == DATA


def test_concurrent_writes_of_equal_bytes_store_one_file(tmp_path: Path) -> None:
    artifacts = ArtifactStore(str(tmp_path))
    data = os.urandom(200_000)
    with ThreadPoolExecutor(8) as pool:
        digests = set(pool.map(lambda _: artifacts.of("default").put(data), range(32)))
    assert len(digests) == 1
    assert artifacts.of("default").get(digests.pop()) == data
    assert len(files(tmp_path)) == 1


def test_cleanup_deletes_old_unused_artifacts(tmp_path: Path, database: Database) -> None:
    artifacts = ArtifactStore(str(tmp_path / "artifacts"))
    request, checkpoint, old_checkpoint, new, put_again = map(
        artifacts.of("default").put,
        (b"request", b"checkpoint 2", b"checkpoint 1", b"new", b"again"),
    )
    with database.transaction() as session:
        job = jobs.submit(
            session, kind=JobKind.PREDICT, request_digest=request, tenant=DEFAULT_TENANT
        )
        claim = jobs.claim(session, job.id, "worker", 60)
        assert claim is not None
        jobs.record_checkpoint(session, claim, old_checkpoint, 1)
        jobs.record_checkpoint(session, claim, checkpoint, 2)
    two_days_ago = time.time() - 2 * 24 * 3600
    for path in files(tmp_path / "artifacts"):
        if path.name != new:
            os.utime(path, (two_days_ago, two_days_ago))
    artifacts.of("default").put(b"again")
    for name, age in (("old.tmp", 2 * 24 * 3600), ("young.tmp", 0)):
        unfinished = tmp_path / "artifacts" / name
        unfinished.write_bytes(b"unfinished")
        os.utime(unfinished, (time.time() - age, time.time() - age))
    assert delete_unneeded(database, artifacts) == 1
    remaining = {listed.digest for listed in artifacts.listed()}
    assert remaining == {request, checkpoint, new, put_again}
    assert [path.name for path in (tmp_path / "artifacts").glob("*.tmp")] == ["young.tmp"]
