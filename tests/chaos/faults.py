"""The faults of a run, and a schedule of them."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from tests.chaos.cluster import Cluster, RunningJob, wait_for_end
from tests.chaos.history import Fault, FaultKind, HistoryWriter
from tests.processes import fill_disk

_WAIT_SECONDS = 60.0  # for a job that can be killed

# For 1,000 jobs.
SCHEDULE = Counter(
    {
        FaultKind.KILL_CHILD: 52,
        FaultKind.KILL_WORKER: 52,
        FaultKind.STOP_WORKER: 6,
        FaultKind.KILL_BROKER: 10,
        FaultKind.LOSE_BROKER: 10,
        FaultKind.KILL_API: 4,
        FaultKind.KILL_DISPATCHER: 7,
        FaultKind.FILL_DISK: 5,
        FaultKind.CUT_COMMIT: 10,
    }
)


def schedule(cluster: Cluster, rng: random.Random) -> list[FaultKind]:
    """Every kind of fault that is possible here, in proportion to the number of jobs."""
    impossible = set()
    if not cluster.has_own_disk:
        impossible.add(FaultKind.FILL_DISK)
    if cluster.proxy is None:
        impossible.add(FaultKind.CUT_COMMIT)
    faults = [
        kind
        for kind, count in SCHEDULE.items()
        if kind not in impossible
        for _ in range(max(1, round(count * cluster.scale.jobs / 1000)))
    ]
    rng.shuffle(faults)
    return faults


@dataclass
class FaultInjector:
    cluster: Cluster
    history: HistoryWriter
    rng: random.Random
    _timers: list[threading.Timer] = field(default_factory=list)

    def inject(self, kind: FaultKind) -> bool:
        """Causes the fault; False if no worker was working, so that it has to be repeated."""
        match kind:
            case FaultKind.KILL_CHILD | FaultKind.KILL_WORKER | FaultKind.STOP_WORKER:
                return self._strike_worker(kind)
            case FaultKind.KILL_BROKER | FaultKind.LOSE_BROKER:
                self._kill_broker(loses_files=kind is FaultKind.LOSE_BROKER)
            case FaultKind.KILL_API | FaultKind.KILL_DISPATCHER:
                self._kill_api(leader=kind is FaultKind.KILL_DISPATCHER)
            case FaultKind.FILL_DISK:
                self._fill_disk()
            case FaultKind.CUT_COMMIT:
                return self._cut_commit()
        self.history.write(Fault(what=kind))
        return True

    def finish(self) -> None:
        """Continues the workers that are still stopped."""
        for timer in self._timers:
            timer.join()

    def _strike_worker(self, kind: FaultKind) -> bool:
        running = self._choose_running()
        worker = None if running is None else self.cluster.worker_of(running)
        if running is None or worker is None:
            return False
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            child = psutil.Process(running.pid)
            if kind is FaultKind.STOP_WORKER:
                worker.signal(signal.SIGSTOP)
                seconds = self.cluster.scale.lease_seconds + 3
                timer = threading.Timer(seconds, _continue, [worker.pid])
                timer.start()
                self._timers.append(timer)
            elif kind is FaultKind.KILL_CHILD:
                child.kill()
                wait_for_end(child)
            else:
                os.killpg(worker.pid, signal.SIGKILL)
                wait_for_end(child)
        # Only this process could have ended the attempt, so the job was being worked on.
        was_working = running in self.cluster.running_jobs()
        self.history.write(
            Fault(what=kind, job=running.job, attempt=running.attempt, was_working=was_working)
        )
        return was_working

    def _choose_running(self) -> RunningJob | None:
        deadline = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < deadline:
            if self._candidates():
                # Strike at any moment of the work, not only at its start.
                time.sleep(self.rng.uniform(0, 0.3))
                candidates = self._candidates()
                if candidates:
                    return self.rng.choice(candidates)
            time.sleep(0.01)
        return None

    def _candidates(self) -> list[RunningJob]:
        # Other faults need attempts, too; the poison job uses up all of its own.
        most = self.cluster.scale.max_attempts // 2
        return [
            running
            for running in self.cluster.running_jobs()
            if running.attempts_used <= most
            and psutil.pid_exists(running.pid)
            and psutil.Process(running.pid).status() != psutil.STATUS_STOPPED
        ]

    def _kill_broker(self, *, loses_files: bool) -> None:
        broker = self.cluster.stack.broker
        broker.kill()
        if loses_files:
            broker.delete_files()
        time.sleep(self.rng.uniform(0.2, 1.0))
        broker.start()

    def _kill_api(self, *, leader: bool) -> None:
        ports = list(self.cluster.apis)
        port = self.cluster.leader_port() if leader else None
        port = port or self.rng.choice(ports)
        self.cluster.apis[port].kill()
        self.cluster.start_api(port)

    def _fill_disk(self) -> None:
        folder = self.cluster.stack.settings.data_dir
        filler = fill_disk(folder, leave=self.rng.choice([0, 4096, 2**16, 2**20, 2**25]))
        time.sleep(self.rng.uniform(1, 3))
        filler.unlink()

    def _cut_commit(self) -> bool:
        """Cuts the next connection that commits."""
        proxy = self.cluster.proxy
        assert proxy is not None
        before, deadline = proxy.dropped, time.monotonic() + 5
        proxy.cuts = True
        while proxy.dropped == before and time.monotonic() < deadline:
            time.sleep(0.002)
        proxy.cuts = False
        if proxy.dropped > before:
            self.history.write(Fault(what=FaultKind.CUT_COMMIT))
        return proxy.dropped > before


def _continue(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGCONT)
