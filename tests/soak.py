"""Many small jobs on one deployment: `python -m tests.soak --jobs 5000`.

Predictions and searches run through one API, whose dispatcher leads, and one worker. Meanwhile this
measures memory, file descriptors and threads of their processes. After the warm-up, memory may grow
by 1 kB per job, and the median of descriptors and threads not at all.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import psutil
from sqlalchemy import func, select

from d4explain.contracts.job_states import JobState
from store.database.tables import Job
from tests.chaos.workload import register_gnn, register_rings, ring
from tests.processes import EdgeCounter, Stack, opened_stack

MAX_BYTES_PER_JOB = 1000.0
_SHARE_OF_SEARCHES = 0.3
_WARM_UP_SHARE = 0.3  # caches, pools and the allocator fill
_BACKLOG = 40
_CLIENTS = 3
_SAMPLE_SECONDS = 1.0
_COUNTS = ("descriptors", "threads")


@dataclass(frozen=True)
class Sample:
    jobs: int  # that have ended
    memory: int  # bytes, resident
    descriptors: int
    threads: int


@dataclass
class Trace:
    """The samples of one process."""

    process: psutil.Process
    samples: list[Sample] = field(default_factory=list)

    def add(self, jobs: int) -> None:
        with self.process.oneshot():
            memory = self.process.memory_info().rss
            threads = self.process.num_threads()
        self.samples.append(Sample(jobs, memory, self.process.num_fds(), threads))

    def figures(self, jobs: int) -> dict[str, float]:
        """Of the samples after the warm-up."""
        warm = [sample for sample in self.samples if sample.jobs >= _WARM_UP_SHARE * jobs]
        done = np.array([sample.jobs for sample in warm], float)
        memory = np.array([sample.memory for sample in warm], float)
        slope = float(np.polyfit(done, memory, 1)[0]) if len(warm) > 2 else float("nan")
        found = {
            "bytes_per_job": round(slope, 1),
            "first_mb": round(memory[0] / 1e6, 1),
            "last_mb": round(memory[-1] / 1e6, 1),
            "peak_mb": round(max(sample.memory for sample in self.samples) / 1e6, 1),
        }
        for name in _COUNTS:
            values = [getattr(sample, name) for sample in warm]
            half = len(values) // 2
            found[f"{name}_first_half"] = statistics.median(values[:half])
            found[f"{name}_second_half"] = statistics.median(values[half:])
            found[f"{name}_peak"] = max(values)
        return found


class Load:
    """Clients that keep a backlog until enough jobs were accepted."""

    def __init__(
        self, url: str, gnn: str, dataset: str, stack: Stack, *, jobs: int, seconds: float
    ) -> None:
        self._url = url
        self._gnn = gnn
        self._dataset = dataset
        self._stack = stack
        self._jobs = jobs
        self._ends = time.monotonic() + seconds
        self._lock = threading.Lock()
        self.accepted = 0
        self.problems: list[str] = []

    def ended(self) -> int:
        terminal = [state for state in JobState if state.is_terminal]
        with self._stack.store.database.reading() as session:
            return session.scalar(select(func.count()).where(Job.state.in_(terminal))) or 0

    def run(self, number: int) -> None:
        rng = random.Random(number)
        with httpx.Client(base_url=self._url, timeout=60) as http:
            while time.monotonic() < self._ends:
                with self._lock:
                    if self.accepted >= self._jobs:
                        return
                    self.accepted += 1
                self._submit(http, rng)
                while self.accepted - self.ended() > _BACKLOG and time.monotonic() < self._ends:
                    time.sleep(0.05)

    def _submit(self, http: httpx.Client, rng: random.Random) -> None:
        nodes = rng.randint(4, 12)
        graph = ring(nodes, round(rng.uniform(0.5, 1.5), 3))
        if rng.random() < _SHARE_OF_SEARCHES:
            body = {
                "kind": "counterfactual",
                "gnn": self._gnn,
                "dataset": self._dataset,
                "graph": graph,
                "explainer": "search",
                "aim": "minimal",
                "judges": "none",
                "seed": rng.randrange(2**31),
            }
            path = "/v1/explanations"
        else:
            body, path = {"graph": graph}, f"/v1/gnns/{self._gnn}/predictions"
        headers = {"Prefer": "respond-async"}
        if rng.random() < 0.2:
            headers = {"Prefer": "wait=2"}
        answer = http.post(path, json=body, headers=headers)
        if not answer.is_success:
            self.problems.append(f"{path}: {answer.status_code} {answer.text[:200]}")
            return
        if rng.random() < 0.2:
            document = answer.json()
            http.get(f"/v1/jobs/{document['job']['id']}")
            http.get("/v1/jobs?limit=20")


def soak(folder: Path, jobs: int, seconds: float) -> dict[str, object]:
    """Runs the jobs, at most for so many seconds, and returns the figures of each process."""
    with opened_stack(folder, lease_seconds=10.0) as stack:
        api = stack.start_service()
        [worker] = stack.ensure_workers(1)
        with httpx.Client(timeout=60) as http:
            gnn = register_gnn(http, api.url, "counter", *EdgeCounter.make())
            dataset = register_rings(http, api.url)
        [child] = stack.present()
        traces = {
            "API and dispatcher": Trace(psutil.Process(api.process.pid)),
            "worker": Trace(psutil.Process(worker.pid)),
            "worker's child": Trace(psutil.Process(child.pid)),
        }
        load = Load(api.url, gnn, dataset, stack, jobs=jobs, seconds=seconds)
        threads = [threading.Thread(target=load.run, args=(n,)) for n in range(_CLIENTS)]
        began, before = time.monotonic(), load.ended()
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            done = load.ended() - before
            for trace in traces.values():
                trace.add(done)
            time.sleep(_SAMPLE_SECONDS)
        stack.until(lambda: load.ended() - before >= load.accepted, "all jobs end", 120)
        done = load.ended() - before
        with stack.store.database.reading() as session:
            good = session.scalar(select(func.count()).where(Job.state == JobState.SUCCEEDED)) or 0
        return {
            "jobs": done,
            "failed": load.accepted + before - good,
            "problems": load.problems[:5],
            "seconds": round(time.monotonic() - began),
            "processes": {name: trace.figures(done) for name, trace in traces.items()},
        }


def faults(found: dict[str, object]) -> list[str]:
    """What breaks a limit."""
    broken = [f"{found['failed']} jobs did not succeed"] if found["failed"] else []
    processes = found["processes"]
    assert isinstance(processes, dict)
    for name, figures in processes.items():
        if not figures["bytes_per_job"] <= MAX_BYTES_PER_JOB:
            broken.append(f"{name}: {figures['bytes_per_job']} bytes per job")
        broken += [
            f"{name}: {kind} grow"
            for kind in _COUNTS
            if figures[f"{kind}_second_half"] > figures[f"{kind}_first_half"]
        ]
    return broken


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--minutes", type=float, default=60.0, help="nothing is submitted later")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        found = soak(Path(folder), chosen.jobs, chosen.minutes * 60)
    print(json.dumps(found, indent=1))
    broken = faults(found)
    print("\n".join(broken) or "all limits hold")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
