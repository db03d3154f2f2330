"""How long filtered pages of many explanations take: `python -m bench.speed.api.lists`.

It writes explanations in all states, with metadata, and asks an API process for pages over HTTP.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import httpx
from sqlalchemy import text, update

from bench.speed.api.deployment import Deployment
from d4explain.contracts.gnn_spec import parse_spec
from d4explain.contracts.job_states import JobState
from d4explain.contracts.scopes import DEFAULT_TENANT
from d4explain.stack.ports import free_port
from store.catalogue import datasets, explanations, gnns
from store.catalogue.explanations import NewExplanation
from store.database.sessions import now
from store.database.tables import Job
from store.settings import Settings
from store.store import Store

_BATCH = 500
_START_SECONDS = 120.0
_TEAMS = ("risk", "fraud", "research")
_SPEC = {
    "features": 1,
    "classes": 2,
    "layers": [{"type": "pool", "op": "sum"}, {"type": "linear", "out": 2}],
}
# One of these in a hundred; all others have succeeded.
_RARE = {0: JobState.FAILED, 1: JobState.QUEUED, 2: JobState.CANCELED}
_QUERIES = (
    "",
    "state=succeeded",
    "state=failed",
    "state=queued",
    "state=running",
    "metadata.team=risk",
    "metadata.run=77",
    "metadata.team=risk&metadata.reviewed=true&state=failed",
    "metadata.team=nobody",
    "created_before=2020-01-01",
    "created_after={middle}&metadata.team=fraud",
)


def fill(store: Store, count: int) -> str:
    """Writes explanations with metadata; returns the time after the first half."""
    digest = store.artifacts.of(DEFAULT_TENANT).put(b"{}")
    with store.database.transaction() as session:
        gnn, _ = gnns.create(
            session,
            name="lists",
            spec=parse_spec(_SPEC),
            weights_digest=digest,
            tenant=DEFAULT_TENANT,
        )
        dataset = datasets.create(
            session,
            name="lists",
            gnn_features=1,
            graphs_digest=digest,
            sha256=digest,
            graph_count=1,
            label_counts={},
            max_nodes=1,
            mean_nodes=1.0,
            mean_edges=0.0,
            tenant=DEFAULT_TENANT,
        )
    middle = ""
    for first in range(0, count, _BATCH):
        if first >= count / 2 and not middle:
            middle = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        numbers = range(first, min(first + _BATCH, count))
        with store.database.transaction() as session:
            written = explanations.create_all(
                session,
                [
                    NewExplanation(
                        kind="counterfactual",
                        gnn=gnn,
                        dataset=dataset,
                        denoiser=None,
                        train_job=None,
                        request_digest=digest,
                        summary={"graph_count": 1, "found_count": 1, "flip_rate": 1.0},
                        metadata={
                            "team": _TEAMS[number % len(_TEAMS)],
                            "run": number,
                            "reviewed": number % 2 == 0,
                        },
                    )
                    for number in numbers
                ],
            )
            states: dict[JobState, list[str]] = {state: [] for state in JobState}
            for number, (_, job) in zip(numbers, written, strict=True):
                states[_RARE.get(number % 100, JobState.SUCCEEDED)].append(job.id)
            for state, ids in states.items():
                session.execute(
                    update(Job)
                    .where(Job.id.in_(ids))
                    .values(state=state, started_at=now())
                    .execution_options(synchronize_session=False)
                )
    return middle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--explanations", type=int, default=10_000)
    parser.add_argument("--pages", type=int, default=20, help="requests per query")
    parser.add_argument("--limit", type=int, default=50, help="items per page")
    parser.add_argument("--url", help="an empty database; default: SQLite in a temporary folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        given = {"database_url": options.url} if options.url else {}
        settings = Settings(data_dir=Path(folder), port=free_port(), **given)
        with Store.open(settings) as store:
            middle = fill(store, options.explanations)
            if not store.database.is_sqlite:
                with store.database.transaction() as session:
                    session.execute(text("ANALYZE"))  # as the server's autovacuum does in a minute
        running = Deployment(settings)
        try:
            environment = {k: v for k, v in os.environ.items() if not k.startswith("D4_")}
            running.start(
                "api", [sys.executable, "-m", "service"], environment | settings.environment()
            )
            with httpx.Client(base_url=running.url, timeout=60) as client:
                _wait(client, running)
                for noun in ("explanations", "jobs"):
                    for query in _QUERIES:
                        asked = f"/v1/{noun}?limit={options.limit}&{query.format(middle=middle)}"
                        _measure(client, asked, options.pages)
        finally:
            running.stop()


def _wait(client: httpx.Client, running: Deployment) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        running.require_alive()
        try:
            if client.get("/livez").is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise RuntimeError("The API did not start.")


def _measure(client: httpx.Client, path: str, pages: int) -> None:
    client.get(path).raise_for_status()  # opens connections; not counted
    milliseconds = []
    for _ in range(pages):
        started = time.perf_counter()
        answer = client.get(path)
        milliseconds.append(1000 * (time.perf_counter() - started))
    items = len(answer.json()["items"])
    print(
        f"{path}: median {median(milliseconds):.0f} ms, max {max(milliseconds):.0f} ms, "
        f"{items} items, {len(answer.content) / 1000:.0f} kB",
        flush=True,
    )


if __name__ == "__main__":
    main()
