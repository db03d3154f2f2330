"""Artifacts on a server that speaks the S3 protocol: contracts, outages and jobs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

from d4explain.contracts.scopes import DEFAULT_TENANT
from d4explain.stack.ports import free_port
from store import jobs
from store.artifacts import large_graphs
from store.artifacts.artifact_store import ArtifactStore
from store.artifacts.files import digest_of
from store.database.tables import Job
from store.errors import ArtifactCorrupt, ArtifactMissing, ArtifactsUnavailable
from store.queue.cleanup import delete_unneeded
from store.settings import Settings
from store.store import Store
from tests.processes import opened_stack, wait_until

if TYPE_CHECKING:
    from tests.processes import EdgeCounter, Stack

boto3 = pytest.importorskip("boto3", reason="the S3 client of the tests is not installed")
moto_server = pytest.importorskip("moto.server", reason="moto is not installed")

BUCKET = "artifacts"
DATA = b"some weights" * 1000


class S3Server:
    """It keeps its objects while it is down."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.up()

    def up(self) -> None:
        self._server = moto_server.ThreadedMotoServer("127.0.0.1", self.port, verbose=False)
        self._server.start()

    def down(self) -> None:
        listening = self._server._server
        self._server.stop()
        listening.server_close()

    @property
    def client(self) -> Any:
        return boto3.client("s3", endpoint_url=self.url)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    """An S3 server with a bucket; this process and its children know its address and keys."""
    with pytest.MonkeyPatch.context() as patched:
        server = S3Server()
        patched.setenv("AWS_ENDPOINT_URL", server.url)
        patched.setenv("AWS_ACCESS_KEY_ID", "test")
        patched.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patched.setenv("AWS_DEFAULT_REGION", "us-east-1")
        server.client.create_bucket(Bucket=BUCKET)
        yield server
        server.down()


@pytest.fixture
def artifacts(s3: S3Server, tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(f"s3://{BUCKET}/{tmp_path.name}")


def key_of(artifacts: ArtifactStore, digest: str) -> str:
    return f"{artifacts.url.removeprefix(f's3://{BUCKET}/')}/{digest[:2]}/{digest}"


def test_artifacts_are_stored_read_listed_and_deleted(artifacts: ArtifactStore) -> None:
    started = time.time()
    digest = artifacts.of("default").put(DATA)
    assert artifacts.of("default").put(DATA) == digest
    assert artifacts.of("default").get(digest) == DATA
    with artifacts.of("default").open_large(digest) as file:
        assert file.read() == DATA
    [listed] = artifacts.listed()
    assert listed.digest == digest
    assert listed.modified_at is not None
    assert abs(listed.modified_at - started) < 60
    assert artifacts.of("default").modified_at(digest) == listed.modified_at
    assert artifacts.problem() is None
    artifacts.of("default").delete(digest)
    artifacts.of("default").delete(digest)
    assert not artifacts.of("default").exists(digest)
    assert artifacts.of("default").modified_at(digest) is None
    for read in (artifacts.of("default").get, artifacts.of("default").open_large):
        with pytest.raises(ArtifactMissing, match=digest):
            read(digest)


def test_many_artifacts_are_stored_in_parallel(artifacts: ArtifactStore) -> None:
    several = [b"request %d" % number for number in range(40)]
    artifacts.of("default").put_all([*several, *several[:3]])
    assert {listed.digest for listed in artifacts.listed()} == {digest_of(one) for one in several}
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(artifacts.of("default").get, map(digest_of, several))) == several


def test_what_another_process_stored_is_seen_at_once(
    artifacts: ArtifactStore, s3: S3Server
) -> None:
    """A kept listing would lack it: the file system of fsspec keeps listings by default."""
    artifacts.of("default").put(b"first")
    assert len(list(artifacts.listed())) == 1
    digest = digest_of(b"second")
    s3.client.put_object(Bucket=BUCKET, Key=key_of(artifacts, digest), Body=b"second")
    assert artifacts.of("default").exists(digest)
    assert artifacts.of("default").get(digest) == b"second"
    assert len(list(artifacts.listed())) == 2


@pytest.mark.parametrize("damaged", [b"", DATA[:-1], DATA.replace(b"w", b"v", 1)])
def test_damaged_objects_are_never_returned(
    artifacts: ArtifactStore, s3: S3Server, damaged: bytes
) -> None:
    digest = artifacts.of("default").put(DATA)
    s3.client.put_object(Bucket=BUCKET, Key=key_of(artifacts, digest), Body=damaged)
    for read in (artifacts.of("default").get, artifacts.of("default").open_large):
        with pytest.raises(ArtifactCorrupt, match=digest):
            read(digest)
    artifacts.of("default").put(DATA)
    assert artifacts.of("default").get(digest) == DATA


def test_a_large_graph_is_uploaded_in_parts_and_mapped(artifacts: ArtifactStore) -> None:
    rng = np.random.default_rng(1)
    nodes = 300_000
    ends = rng.integers(0, nodes, (2, 1_000_000))
    kept = ends[:, ends[0] != ends[1]]
    graph = large_graphs.rows_of(rng.random((nodes, 60), dtype=np.float32), kept[0], kept[1])
    digest = artifacts.of("default").put_large(lambda file: large_graphs.write(graph, file))
    with artifacts.of("default").open_large(digest) as file:
        found = large_graphs.mapped(file)
    assert isinstance(found.x.base, np.memmap)
    assert found.node_count == nodes
    row = slice(found.starts[7], found.starts[8])
    assert np.array_equal(found.neighbours[row], graph.neighbours[row])
    assert np.array_equal(found.x[-1], graph.x[-1])


def test_an_interrupted_upload_leaves_no_object(artifacts: ArtifactStore) -> None:
    class Interrupted(Exception):  # noqa: N818 - what happened to the writer
        pass

    def write(file: Any) -> None:
        file.write(DATA)
        raise Interrupted

    with pytest.raises(Interrupted):
        artifacts.of("default").put_large(write)
    assert list(artifacts.listed()) == []


def test_cleanup_deletes_unneeded_objects(artifacts: ArtifactStore, tmp_path: Path) -> None:
    artifacts.of("default").put(b"nobody needs this")
    settings = Settings(data_dir=tmp_path / "data", artifacts=artifacts.url)
    with Store.open(settings) as store:
        assert delete_unneeded(store.database, store.artifacts) == 0  # too young
        time.sleep(1.1)
        assert delete_unneeded(store.database, store.artifacts, min_age_seconds=1.0) == 1
    assert list(artifacts.listed()) == []


def test_an_outage_and_a_missing_bucket_are_reported_within_seconds(s3: S3Server) -> None:
    artifacts = ArtifactStore(f"s3://{BUCKET}/outage")
    digest = artifacts.of("default").put(DATA)
    uses: list[Callable[[], object]] = [
        lambda: artifacts.of("default").put(DATA),
        lambda: artifacts.of("default").put_large(lambda file: file.write(DATA)),
        lambda: artifacts.of("default").get(digest),
        lambda: artifacts.of("default").open_large(digest),
        lambda: artifacts.of("default").exists(digest),
        lambda: artifacts.of("default").delete(digest),
        lambda: list(artifacts.listed()),
    ]
    s3.down()
    try:
        started = time.monotonic()
        for use in uses:
            with pytest.raises(ArtifactsUnavailable, match="EndpointConnectionError"):
                use()
        assert time.monotonic() - started < 5 * len(uses)
        assert artifacts.problem() is not None
    finally:
        s3.up()
    assert artifacts.of("default").get(digest) == DATA
    with pytest.raises(ArtifactsUnavailable, match="the artifact store is unavailable"):
        ArtifactStore("s3://no-such-bucket/prefix").of("default").put(DATA)
    assert [found["Name"] for found in s3.client.list_buckets()["Buckets"]] == [BUCKET]


def test_a_job_waits_for_the_end_of_an_outage(
    s3: S3Server, tmp_path: Path, edge_counter: EdgeCounter
) -> None:
    files = {"spec": json.dumps(edge_counter.spec), "weights": edge_counter.weights}
    with opened_stack(tmp_path, artifacts=f"s3://{BUCKET}/stack") as stack:
        api = stack.start_service().url
        with httpx.Client(base_url=api, timeout=60) as client:
            posted = client.post("/v1/gnns", data={"name": "counter"}, files=files)
            assert posted.status_code == 202, posted.text
            s3.down()
            try:
                stack.wait_for(stack.start_worker("light"))
                job_id = posted.json()["job_id"]
                wait_until(lambda: job(stack, job_id).releases > 0, "the attempt was released", 60)
                refused = client.post("/v1/gnns", data={"name": "another"}, files=files)
                assert refused.status_code == 503
                assert refused.json()["type"].endswith("artifacts-unavailable")
                assert int(refused.headers["retry-after"]) > 0
                ready = client.get("/readyz")
                assert ready.status_code == 503
                assert "artifact store is unavailable" in ready.json()["reasons"][0]
                wait_until(lambda: bool(stack.logs("Waiting before")), "the worker waits")
                time.sleep(2)
                assert job(stack, job_id).releases <= 2  # it does not try again and again
            finally:
                s3.up()
            wait_until(lambda: job(stack, job_id).state.is_terminal, "the job has ended", 60)
            assert job(stack, job_id).state == "succeeded"
            assert job(stack, job_id).attempts_used == 1
            assert client.get("/readyz").status_code == 200
            assert client.get("/v1/gnns").json()["items"][0]["state"] == "ready"
            assert len(client.get("/v1/gnns").json()["items"]) == 1


def job(stack: Stack, job_id: str) -> Job:
    with stack.store.database.reading() as session:
        return jobs.get(session, job_id, tenant=DEFAULT_TENANT)
