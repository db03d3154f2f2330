"""A short life on a disk that becomes full at a chosen write: register, submit, train, explain,
notify, read, delete and purge. Whoever is refused tries again, as clients and the queue do."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import torch
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from d4explain.contracts.job_states import EventType, JobState
from d4explain.contracts.scopes import DEFAULT_TENANT
from service.app import create_app
from store import jobs
from store.artifacts.disk_space import DiskSpace
from store.database.tables import Job, Table
from store.maintenance import consistency
from store.queue import cleanup
from store.settings import Settings
from store.store import Store
from tests.chaos.workload import result_digest, ring
from tests.full_disk.failing_writes import FailingDisk
from tests.processes import EdgeCounter
from tests.receivers import Receiver
from worker.execution.runner import Runner
from worker.handlers import HANDLERS
from worker.loading.library import Library
from worker.webhooks.delivery_loop import DeliveryLoop

_SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwbXn8"
_STEP_SECONDS = 20.0
_FULL_SECONDS = 0.15  # how long the disk stays full
_IDLE_SECONDS = 1.0  # … and, before that, without any write
_POLL_SECONDS = 0.005
# Tables whose rows count attempts, which differ if something failed, and tables of processes.
_OF_ATTEMPTS = {"audit_log", "job_events", "webhook_attempts", "workers", "leads"}
_OUTCOME_UNKNOWN = "outcome-unknown"


@dataclass
class Life:
    """What one life showed; `faults` are broken promises."""

    faults: list[str] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)
    result: str | None = None
    weights: str | None = None
    rows: dict[str, int] = field(default_factory=dict)
    writes: int = 0
    what_failed: str = ""


@dataclass
class _World:
    store: Store
    client: httpx.Client
    runner: Runner
    disk: FailingDisk
    receiver: Receiver
    life: Life
    _keys: int = 0

    def send(self, method: str, path: str, **options: Any) -> Any:
        """Sends the request until it is accepted and returns the body."""
        self._keys += 1
        headers = {"Idempotency-Key": f"key-{self._keys}", "Prefer": "respond-async"}
        deadline = time.monotonic() + _STEP_SECONDS
        has_unknown_outcome = False
        while time.monotonic() < deadline:
            before = self._rows()
            answer = self.client.request(method, path, headers=headers, **options)
            if answer.is_success or (answer.status_code == 404 and has_unknown_outcome):
                return answer.json() if answer.content else None
            has_unknown_outcome |= self._note_refusal(f"{method} {path}", answer, before)
            time.sleep(0.02)
        raise TimeoutError(f"{method} {path} was not accepted: {answer.status_code} {answer.text}")

    def finish(self, job_id: str) -> None:
        """Runs the job, and those it waits for, until it has ended."""
        deadline = time.monotonic() + _STEP_SECONDS
        while time.monotonic() < deadline:
            try:
                with self.store.database.transaction() as session:
                    jobs.reap(session)
                with self.store.database.reading() as session:
                    job = jobs.get(session, job_id, tenant=DEFAULT_TENANT)
                    if job.state.is_terminal:
                        return
                    awaited = job.awaited
                if awaited is not None:
                    self.finish(awaited)
                else:
                    self.runner.run(job_id)
            except (SQLAlchemyError, OSError) as error:  # Celery logs it and takes the next message
                self.life.refusals[f"worker: {type(error).__name__}"] += 1
                time.sleep(0.02)
        raise TimeoutError(f"job {job_id} has not ended")

    def repeat(self, act: Callable[[], bool], what: str) -> None:
        """Does it until it is true; errors are those of the disk, as in the dispatcher."""
        deadline = time.monotonic() + _STEP_SECONDS
        while time.monotonic() < deadline:
            try:
                if act():
                    return
            except (SQLAlchemyError, OSError) as error:
                self.life.refusals[f"dispatcher: {type(error).__name__}"] += 1
            time.sleep(0.02)
        raise TimeoutError(f"{what} did not happen")

    def _note_refusal(self, request: str, answer: httpx.Response, before: dict[str, int]) -> bool:
        """Whether the outcome is unknown; anything but a clear refusal is a fault."""
        slug = answer.json()["type"].rsplit(":", 1)[-1]
        detail = answer.json()["detail"]
        self.life.refusals[f"{answer.status_code} {slug}"] += 1
        if answer.status_code == 507 and "disk" in detail:
            if self._rows() != before:
                self.life.faults.append(f"{request} was refused and has written rows")
            return False
        if answer.status_code == 503 and slug == _OUTCOME_UNKNOWN:
            return True
        raise AssertionError(f"{request} was answered with {answer.status_code}: {detail}")

    def _rows(self) -> dict[str, int]:
        """Rows of each table; read without the service's connections."""
        with self.disk.observing():
            return rows_of(self.store.settings.data_dir / "d4explain.sqlite")


def rows_of(database: Path) -> dict[str, int]:
    names = [name for name in Table.metadata.tables if name not in _OF_ATTEMPTS]
    connection = sqlite3.connect(database)
    try:
        count = "SELECT count(*) FROM {}"
        return {name: connection.execute(count.format(name)).fetchone()[0] for name in names}
    finally:
        connection.close()


def live(
    folder: Path, template: Path, receiver: Receiver, fail: Callable[[FailingDisk], None]
) -> Life:
    """One life in a new folder; `template` is a migrated database."""
    life = Life()
    data = folder / "data"
    data.mkdir(parents=True)
    shutil.copy(template, data / "d4explain.sqlite")
    disk = FailingDisk(data)
    settings = Settings(
        data_dir=data,
        device="cpu",
        threads=1,
        lease_seconds=2.0,
        max_attempts=4,
        webhook_hosts="127.0.0.1",
        webhook_private_hosts="127.0.0.1",
        redis_url="redis://127.0.0.1:1/0",
    )
    receiver.received.clear()
    try:
        with _opened(settings, disk, receiver, life) as world:
            fail(disk)
            with _freed_soon(disk):
                _run(world)
            life.writes = disk.writes
            life.what_failed = disk.what_failed_first
            disk.free()
            _check(world)
    except (TimeoutError, AssertionError) as error:
        life.what_failed = disk.what_failed_first
        life.faults.append(str(error))
    finally:
        disk.free()
    shutil.rmtree(folder)
    return life


@contextmanager
def _opened(
    settings: Settings, disk: FailingDisk, receiver: Receiver, life: Life
) -> Iterator[_World]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Starlette recommends another HTTP library
        from starlette.testclient import TestClient  # noqa: PLC0415
    with Store.open(settings, migrate=False) as opened:
        # A refused write stops new work for 5 s; here for as long as the disk is full.
        folders = {"the data folder": settings.data_dir}
        store = replace(opened, disk=DiskSpace(folders, refusal_seconds=_FULL_SECONDS))
        library = Library(store.artifacts, torch.device("cpu"))
        runner = Runner(store, library, HANDLERS, "worker:1", exit_process=_refuse_to_exit)
        app = create_app(store)
        with TestClient(app, "http://127.0.0.1", raise_server_exceptions=False) as client:
            yield _World(store, client, runner, disk, receiver, life)


def _refuse_to_exit(code: int) -> None:
    raise AssertionError(f"the worker's process ends itself with {code}")


@contextmanager
def _freed_soon(disk: FailingDisk) -> Iterator[None]:
    """Frees the disk a moment after it has refused a write.

    Also if it is full and nobody writes: a worker may wait for space before its next write.
    """
    is_over = threading.Event()

    def free() -> None:
        waits = 0
        while not disk.failed and waits < _IDLE_SECONDS / _POLL_SECONDS:
            if is_over.wait(_POLL_SECONDS):
                return
            waits += disk.is_full
        is_over.wait(_FULL_SECONDS)
        disk.free()

    thread = threading.Thread(target=free)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _run(world: _World) -> None:
    counter = EdgeCounter.make()
    files = {"spec": json.dumps(counter.spec).encode(), "weights": counter.weights}
    gnn = world.send("POST", "/v1/gnns", data={"name": "counter"}, files=files)
    dataset = world.send(
        "POST", "/v1/datasets", json={"name": "rings", "graphs": [ring(n) for n in (4, 5, 6, 7)]}
    )
    world.finish(gnn["job_id"])
    explanation = world.send(
        "POST",
        "/v1/explanations",
        json={
            "kind": "counterfactual",
            "gnn": gnn["id"],
            "dataset": dataset["id"],
            "graphs": [ring(6)],
            "aim": "minimal",
            "judges": "none",
            "constraints": {"max_ratio": 1.0},
            "denoiser": {"steps": 12, "hidden": 4, "blocks": 1, "seed": 1},
            "seed": 1,
            "webhook": {"url": world.receiver.url, "secret": _SECRET},
        },
    )
    path = f"/v1/explanations/{explanation['id']}"
    _finish_provisional(world)
    world.finish(explanation["job"]["id"])
    with _delivering(world):
        world.repeat(lambda: _is_delivered(world), "the delivery")
    document = world.send("GET", path)
    world.life.result = result_digest(document)
    denoiser = world.send("GET", f"/v1/denoisers/{document['denoiser']}")
    world.life.weights = denoiser["weights_sha256"]
    world.send("DELETE", path)
    world.send("DELETE", f"/v1/denoisers/{document['denoiser']}")
    world.repeat(lambda: _is_purged(world), "the purge")


def _finish_provisional(world: _World) -> None:
    with world.store.database.reading() as session:
        queued = jobs.page(session, state=JobState.QUEUED, tenant=DEFAULT_TENANT).items
    for job in queued:
        if not job.is_blocked:
            world.finish(job.id)


@contextmanager
def _delivering(world: _World) -> Iterator[None]:
    settings = world.store.settings
    loop = DeliveryLoop(settings, world.store.database, _NoNotifications())
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        yield
    finally:
        loop.stop()
        thread.join()


class _NoNotifications:
    """No broker: the loop finds what is due by itself."""

    def receive(self, seconds: float) -> set[str]:
        time.sleep(min(seconds, 0.02))
        return set()

    def close(self) -> None:
        pass


def _is_delivered(world: _World) -> bool:
    answer = world.client.get("/v1/webhook-deliveries")
    if not answer.is_success:
        return False
    items = answer.json()["items"]
    return bool(items) and all(item["state"] == "delivered" for item in items)


def _is_purged(world: _World) -> bool:
    cleanup.delete_released(world.store.database, world.store.artifacts)
    with world.store.database.reading() as session:
        deletions = Table.metadata.tables["deletions"]
        left = select(func.count()).where(deletions.c.purged_at.is_(None)).select_from(deletions)
        return not session.scalar(left)


def _check(world: _World) -> None:
    """Nothing lost, nothing doubled, nothing half-written."""
    faults, data = world.life.faults, world.store.settings.data_dir
    found = consistency.check(world.store.database, world.store.artifacts, read=True)
    faults += [f"{use} is missing" for use in found.missing]
    faults += [f"{use} is corrupt" for use in found.corrupt]
    faults += [f"{path} is unfinished" for path in data.rglob("*.tmp")]
    for listed in world.store.artifacts.listed():
        path = data / "artifacts" / listed.digest[:2] / listed.digest
        if hashlib.sha256(path.read_bytes()).hexdigest() != listed.digest:
            faults.append(f"{path} has other bytes than its name says")
    connection = sqlite3.connect(data / "d4explain.sqlite")
    [(verdict,)] = connection.execute("PRAGMA integrity_check").fetchall()
    connection.close()
    if verdict != "ok":
        faults.append(f"integrity_check: {verdict}")
    with world.store.database.reading() as session:
        for job in session.scalars(select(Job)):
            events = jobs.events(session, job.id, limit=1000, tenant=job.tenant_id)
            states = [event.data["state"] for event in events if event.type is EventType.STATE]
            if states[-1:] != ["succeeded"] or sum(s in _TERMINAL for s in states) != 1:
                faults.append(f"{job.kind} job: {', '.join(states)}")
    ids = set(world.receiver.ids())
    if len(ids) != 1:
        faults.append(f"{len(ids)} notifications")
    if len({one.body for one in world.receiver.received}) > 1:
        faults.append("a notification changed")
    world.life.rows = rows_of(data / "d4explain.sqlite")


_TERMINAL = {state.value for state in JobState if state.is_terminal}
