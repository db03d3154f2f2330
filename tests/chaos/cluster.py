"""A deployment whose processes are killed: two APIs, some workers, a broker and a small disk."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from sqlalchemy import select

from d4explain.contracts.job_states import JobState
from d4explain.stack.ports import free_port
from store.database.tables import Job, Lead
from tests.chaos.history import HistoryWriter, Row
from tests.cutting_proxy import CuttingProxy
from tests.newer_program import newer_program
from tests.processes import (
    ROOT,
    DiskNotMounted,
    ServiceProcess,
    Stack,
    WorkerProcess,
    created_database,
    opened_stack,
    small_disk,
)

DISK_MEBIBYTES = 256
_PLUGIN = Path(__file__).parent / "plugin"
_ROWS_SECONDS = 0.25


@dataclass(frozen=True)
class Scale:
    """The size of a run."""

    jobs: int
    workers: int = 3
    lease_seconds: float = 6.0
    max_attempts: int = 8
    recoveries: int = 3  # measured after the faults
    poison_jobs: int = 1
    has_older_program: bool = False  # one worker and one API beside a newer program


@dataclass(frozen=True)
class RunningJob:
    job: str
    attempt: int  # the fencing token
    attempts_used: int
    owner: str

    @property
    def pid(self) -> int:
        return int(self.owner.rsplit(":", 1)[1])


@dataclass
class Cluster:
    stack: Stack
    scale: Scale
    has_own_disk: bool
    proxy: CuttingProxy | None  # between the processes and PostgreSQL
    programs: list[Path]  # of the workers; the API at position n has the nth, too
    apis: dict[int, ServiceProcess] = field(default_factory=dict)  # by port
    _stopping: threading.Event = field(default_factory=threading.Event)
    _starting: threading.Lock = field(default_factory=threading.Lock)

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.apis]

    def start_api(self, port: int) -> None:
        position = list(self.apis).index(port) if port in self.apis else len(self.apis)
        self.apis[port] = self.stack.start_service(port, self.programs[position])

    def leader_port(self) -> int | None:
        """The port of the API whose dispatcher leads."""
        with self.stack.store.database.reading() as session:
            owner = session.scalar(select(Lead.owner).where(Lead.name == "dispatcher"))
        pid = int(owner.split(":")[-2]) if owner else None
        return next((port for port, api in self.apis.items() if api.process.pid == pid), None)

    def running_jobs(self) -> list[RunningJob]:
        query = select(Job.id, Job.attempt, Job.releases, Job.lease_owner)
        with self.stack.store.database.reading() as session:
            rows = session.execute(query.where(Job.state == JobState.RUNNING)).all()
        return [
            RunningJob(row.id, row.attempt, row.attempt - row.releases, row.lease_owner)
            for row in rows
        ]

    def worker_of(self, running: RunningJob) -> WorkerProcess | None:
        return next(
            (
                worker
                for worker in self.stack.workers
                if worker.is_alive and running.pid in {child.pid for child in worker.children()}
            ),
            None,
        )

    def keep_workers(self) -> None:
        """Replaces workers that were killed, until `stop` is called."""
        while not self._stopping.wait(0.2):
            self._start_missing_workers()

    def ensure_workers(self) -> None:
        """Returns when every worker is alive and ready."""
        self._start_missing_workers()
        self.stack.wait_for(*[worker for worker in self.stack.workers if worker.is_alive])

    def end_upgrade(self) -> None:
        """Replaces the workers of the older program."""
        newest = self.programs[0]
        self.programs = [newest] * len(self.programs)
        for worker in self.stack.workers:
            if worker.is_alive and worker.program != newest:
                worker.kill()

    def _start_missing_workers(self) -> None:
        with self._starting:
            alive = Counter(worker.program for worker in self.stack.workers if worker.is_alive)
            for program in (Counter(self.programs) - alive).elements():
                self.stack.start_worker(folder=program)

    def write_rows(self, history: HistoryWriter) -> None:
        """Writes every change of a job's row that is seen, until `stop` is called."""
        seen: dict[str, tuple[JobState, int]] = {}
        query = select(Job.id, Job.state, Job.attempt)
        while not self._stopping.wait(_ROWS_SECONDS):
            with self.stack.store.database.reading() as session:
                rows = session.execute(query).all()
            for row in rows:
                if seen.get(row.id) != (row.state, row.attempt):
                    seen[row.id] = (row.state, row.attempt)
                    history.write(Row(job=row.id, state=row.state, attempt=row.attempt))

    @contextmanager
    def kept(self, history: HistoryWriter) -> Iterator[None]:
        """Runs the threads that replace workers and write rows."""
        threads = [
            threading.Thread(target=self.keep_workers),
            threading.Thread(target=self.write_rows, args=(history,)),
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join()


@contextmanager
def started_cluster(
    folder: Path, database: str, scale: Scale, *, apis: int = 2
) -> Iterator[Cluster]:
    """Starts everything and waits until it is ready; ends it all afterwards."""
    with ExitStack() as resources:
        folder.mkdir(parents=True)
        has_own_disk = True
        try:
            resources.enter_context(small_disk(folder / "data", DISK_MEBIBYTES))
        except DiskNotMounted:
            has_own_disk = False
        url = resources.enter_context(created_database()) if database == "postgres" else None
        stack = resources.enter_context(
            opened_stack(
                folder,
                database_url=url,
                lease_seconds=scale.lease_seconds,
                max_attempts=scale.max_attempts,
                redispatch_seconds=5.0,
            )
        )
        stack.extra_environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(_PLUGIN)])
        proxy = None
        if url is not None:
            proxy = CuttingProxy.before(url)
            resources.callback(proxy.close)
            stack.extra_environment["D4_DATABASE_URL"] = proxy.url_through(url)
        programs = [ROOT] * scale.workers
        if scale.has_older_program:
            newest = newer_program(folder / "newer")
            programs = [newest, ROOT, *[newest] * (scale.workers - 2)]
        cluster = Cluster(stack, scale, has_own_disk, proxy, programs)
        for _ in range(apis):
            cluster.start_api(free_port())
        cluster.ensure_workers()
        yield cluster


def wait_for_end(process: psutil.Process) -> None:
    """Waits until a killed process has released its connections and files."""
    deadline = time.monotonic() + 10
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, f"process {process.pid} survives SIGKILL"
        time.sleep(0.01)
