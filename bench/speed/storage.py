"""`python -m bench.speed.storage`: artifacts on S3 and on disk, and a backup with its restore.

The S3 server is that of `AWS_ENDPOINT_URL`; without it, moto's server is started, which is written
in Python and on the same machine. So the ratio is one of protocol and client, not of a network.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from d4explain.contracts.gnn_spec import parse_spec
from d4explain.contracts.scopes import DEFAULT_TENANT
from d4explain.stack.ports import free_port
from store import jobs
from store.artifacts.artifact_store import ArtifactStore
from store.catalogue import datasets, explanations, gnns
from store.maintenance.backup import back_up
from store.maintenance.consistency import check
from store.settings import Settings
from store.store import Store

# An explanation by search reads a request and writes a result; a training writes weights.
_SIZES = {"request": 2_000, "result": 20_000, "weights": 400_000}
_TENANT = "default"
_SPEC = parse_spec(
    {
        "features": 1,
        "classes": 2,
        "layers": [{"type": "pool", "op": "sum"}, {"type": "linear", "out": 2}],
    }
)


@contextmanager
def _s3_url() -> Iterator[str]:
    """A bucket of the server in the environment, or of a new one."""
    if "AWS_ENDPOINT_URL" in os.environ:
        yield os.environ["D4_ARTIFACTS"]
        return
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    keys = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
    os.environ.update({"AWS_ENDPOINT_URL": address, "AWS_DEFAULT_REGION": "us-east-1", **keys})
    command = [sys.executable, "-m", "moto.server", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(address)
        bucket = urllib.request.Request(f"{address}/bench", method="PUT")
        urllib.request.urlopen(bucket, timeout=10).close()
        yield "s3://bench/artifacts"
    finally:
        server.kill()
        server.wait()


def _wait_for(address: str) -> None:
    for _ in range(200):
        try:
            urllib.request.urlopen(address, timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"{address} does not answer")


def _median_ms(act: Callable[[], object], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - started)
    return 1000 * statistics.median(seconds)


def compare_artifacts(folder: Path, s3: str, seed: int, repeats: int) -> None:
    """Prints the median times of single artifacts."""
    rng = np.random.default_rng(seed)
    stores = (ArtifactStore(str(folder)), ArtifactStore(s3))
    print(f"{'artifact':10} {'bytes':>8} {'use':5} {'disk ms':>8} {'S3 ms':>8} {'ratio':>6}")
    for name, size in _SIZES.items():
        disk, remote = (_write_and_read(one, rng, size, repeats) for one in stores)
        for use in ("write", "read"):
            ratio = remote[use] / disk[use]
            print(f"{name:10} {size:8} {use:5} {disk[use]:8.2f} {remote[use]:8.2f} {ratio:6.1f}")


def _write_and_read(
    artifacts: ArtifactStore, rng: np.random.Generator, size: int, repeats: int
) -> dict[str, float]:
    digest = artifacts.of(DEFAULT_TENANT).put(rng.bytes(size))
    return {
        "write": _median_ms(lambda: artifacts.of(DEFAULT_TENANT).put(rng.bytes(size)), repeats),
        "read": _median_ms(lambda: artifacts.of(DEFAULT_TENANT).get(digest), repeats),
    }


def measure_backup(folder: Path, count: int, seed: int) -> None:
    """Prints the times of a backup and a restore of so many answered explanations."""
    rng = np.random.default_rng(seed)
    with Store.open(Settings(data_dir=folder / "live")) as store:
        _fill(store, count, rng)
        copy = folder / "copy"
        copy.mkdir()
        assert store.artifacts.folder is not None
        live_artifacts = store.artifacts.folder
        _timed("database copied", lambda: back_up(store.database, copy / "d4explain.sqlite"))
        _timed("artifacts copied", lambda: shutil.copytree(live_artifacts, copy / "artifacts"))
    restored = folder / "restored"
    _timed("restored", lambda: shutil.copytree(copy, restored))
    with Store.open(Settings(data_dir=restored)) as store:

        def read_all() -> None:
            found = check(store.database, store.artifacts, read=True)
            assert not found.faults
            print(f"{found.rows} references to {found.artifacts} artifacts, all read")

        _timed("checked", read_all)


def _fill(store: Store, count: int, rng: np.random.Generator) -> None:
    put = store.artifacts.of(DEFAULT_TENANT).put
    weights, graphs = put(rng.bytes(_SIZES["weights"])), put(rng.bytes(_SIZES["weights"]))
    with store.database.transaction() as session:
        gnn, job = gnns.create(
            session, name="gnn", spec=_SPEC, weights_digest=weights, tenant=_TENANT
        )
        dataset = datasets.create(
            session,
            tenant=_TENANT,
            name="set",
            gnn_features=1,
            graphs_digest=graphs,
            sha256=graphs,
            graph_count=10,
            label_counts={"0": 10},
            max_nodes=9,
            mean_nodes=7.5,
            mean_edges=8.5,
        )
    for _ in range(count):
        request, result = put(rng.bytes(_SIZES["request"])), put(rng.bytes(_SIZES["result"]))
        with store.database.transaction() as session:
            _, job = explanations.create(
                session,
                kind="counterfactual",
                gnn=gnn,
                dataset=dataset,
                denoiser=None,
                train_job=None,
                request_digest=request,
            )
        with store.database.transaction() as session:
            claim = jobs.claim(session, job.id, "bench", 60)
            assert claim is not None
            explanations.finish(session, claim, result_digest=result, summary={"found": 1})
            jobs.succeed(session, claim)


def _timed(what: str, act: Callable[[], object]) -> None:
    started = time.perf_counter()
    act()
    print(f"{what}: {time.perf_counter() - started:.2f} s")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.speed.storage", description=__doc__)
    parser.add_argument("--explanations", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with _s3_url() as s3:
            compare_artifacts(folder / "artifacts", s3, options.seed, options.repeats)
        measure_backup(folder, options.explanations, options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
