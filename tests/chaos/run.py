"""One run: jobs and faults side by side, then the end of all jobs and of recovery."""

from __future__ import annotations

import json
import os
import platform
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
from sqlalchemy import ColumnElement, func, select

from d4explain.contracts.job_states import JobState
from store import jobs
from store.database.tables import Denoiser, Explanation, Job
from store.jobs import EventType
from store.jobs.submission import JOB_FORMAT
from tests.chaos.clients import Accepted, Clients, outcome
from tests.chaos.cluster import Cluster, Scale, started_cluster
from tests.chaos.faults import FaultInjector, schedule
from tests.chaos.history import Claimed, Ended, Expected, Finished, HistoryWriter, Recovery, Run
from tests.chaos.workload import Inputs, Work, all_works, distinct, long_training, shuffled
from tests.processes import ROOT

_READERS = 3
_END_SECONDS = 600.0  # after the last fault, until every job has ended
_BACKLOG = 40  # jobs that wait while the next fault happens
_PAUSE_SECONDS = 20.0  # at most, between two faults
_MISSES = 20  # strikes in a row that hit no working worker


def run(folder: Path, out: Path, *, seed: int, database: str, scale: Scale) -> None:
    """Runs everything and writes the history; raises if the run cannot be carried through."""
    history = HistoryWriter(out)
    history.write(
        Run(
            seed=seed,
            database=database,
            jobs=scale.jobs,
            lease_seconds=scale.lease_seconds,
            date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
            commit=_commit(),
            machine=f"{platform.machine()}, {os.cpu_count()} cores, Python "
            f"{platform.python_version()}",
            has_older_program=scale.has_older_program,
        )
    )
    try:
        alone = replace(scale, workers=1, has_older_program=False)
        with started_cluster(folder / "calm", database, alone, apis=1) as cluster:
            _run_calmly(cluster, history)
        with started_cluster(folder / "chaos", database, scale) as cluster:
            _run_with_faults(cluster, history, seed)
        history.write(Finished())
    finally:
        history.close()


def _run_calmly(cluster: Cluster, history: HistoryWriter) -> None:
    """Does each work once, without faults, and writes how it ended."""
    rng, (url,) = random.Random(0), cluster.urls
    with httpx.Client(timeout=60) as http, closing(HistoryWriter(Path(os.devnull))) as nowhere:
        calm = Clients(cluster.urls, nowhere, seed=0)
        works = distinct(_works(cluster, Inputs.register(http, url)))
        for work in works:
            if work.ending is not JobState.SUCCEEDED:  # poison fails by definition
                history.write(Expected(work=work.name, ending=work.ending, result=None))
        good = [work for work in works if work.ending is JobState.SUCCEEDED]
        accepted = [calm.submit(http, f"calm-{n}", work, rng) for n, work in enumerate(good)]
        _wait_until_ended(cluster, accepted)
        for one in accepted:
            seen = outcome(http, one, url)
            assert seen.state is JobState.SUCCEEDED, f"{one.work.name} is {seen} without faults"
            history.write(Expected(work=one.work.name, ending=seen.state, result=seen.result))


def _works(cluster: Cluster, inputs: Inputs) -> list[Work]:
    return all_works(inputs, cluster.scale.jobs, cluster.scale.poison_jobs)


def _run_with_faults(cluster: Cluster, history: HistoryWriter, seed: int) -> None:
    rng = random.Random(seed)
    with httpx.Client(timeout=60) as http:
        inputs = Inputs.register(http, cluster.urls[0])
    before = _job_ids(cluster)
    works = shuffled(_works(cluster, inputs), rng)
    clients = Clients(cluster.urls, history, seed)
    injector = FaultInjector(cluster, history, rng)
    faults = schedule(cluster, rng)
    done = 0

    def may_submit(position: int) -> bool:
        """Submissions keep pace with the faults, so that there is work until the last fault."""
        return position < len(works) * (done + 1) / len(faults)

    # The pool comes first: leaving `reading` stops the submissions if a fault cannot be caused.
    with ThreadPoolExecutor(1) as pool, cluster.kept(history), clients.reading(_READERS):
        submitting = pool.submit(clients.submit_all, works, may_submit)
        for fault in faults:
            for _ in range(_MISSES):
                if injector.inject(fault):
                    break
            done += 1
            _let_jobs_end(cluster, before, round(len(works) * done / len(faults)) - _BACKLOG)
        submitting.result()
        injector.finish()
        _wait_until_ended(cluster, clients.accepted)
        cluster.end_upgrade()  # an idle worker of the older program cannot continue newer jobs
        cluster.ensure_workers()
        for number in range(cluster.scale.recoveries):
            _measure_recovery(cluster, clients, history, long_training(inputs, number))
    clients.read_all("the last reader")
    _write_claims(cluster, history)
    _write_endings(cluster, history, before)


def _let_jobs_end(cluster: Cluster, before: set[str], count: int) -> None:
    """Waits until so many jobs have ended: without pauses, every attempt would be killed."""
    deadline = time.monotonic() + _PAUSE_SECONDS
    while time.monotonic() < deadline:
        with cluster.stack.store.database.reading() as session:
            ended = session.scalar(select(func.count()).where(_has_ended()))
        if (ended or 0) - len(before) >= count:
            return
        time.sleep(0.1)


def _measure_recovery(
    cluster: Cluster, clients: Clients, history: HistoryWriter, work: Work
) -> None:
    """Kills the worker of the only job while another worker is idle."""
    rng = random.Random(work.name)
    history.write(Expected(work=work.name, ending=work.ending, result=None))
    with httpx.Client(base_url=cluster.urls[0], timeout=30) as http:
        accepted = clients.submit(http, work.name.replace(" ", "-"), work, rng)
        cluster.stack.until(lambda: bool(cluster.running_jobs()), f"{work.name} runs", 60)
        time.sleep(rng.uniform(1, 3))
        (running,) = cluster.running_jobs()
        worker = cluster.worker_of(running)
        assert worker is not None
        cluster.stack.wait_for(*[one for one in cluster.stack.workers if one.is_alive])
        began = time.monotonic()
        os.killpg(worker.pid, signal.SIGKILL)
        cluster.stack.until(
            lambda: any(one.attempt > running.attempt for one in cluster.running_jobs()),
            f"{work.name} runs again",
            60,
        )
        history.write(Recovery(job=running.job, seconds=round(time.monotonic() - began, 2)))
        http.post(f"/v1/jobs/{accepted.job}/cancel").raise_for_status()
        _wait_until_ended(cluster, [accepted])
    cluster.ensure_workers()


def _wait_until_ended(cluster: Cluster, accepted: Sequence[Accepted]) -> None:
    """Returns when all jobs have ended, or when they had enough time: the judge finds them."""
    ids = {one.job for one in accepted}
    deadline = time.monotonic() + _END_SECONDS
    while time.monotonic() < deadline:
        with cluster.stack.store.database.reading() as session:
            states = session.execute(select(Job.id, Job.state).where(~_has_ended())).all()
        if not any(row.id in ids for row in states):
            return
        time.sleep(0.2)


def _has_ended() -> ColumnElement[bool]:
    return Job.state.in_([state for state in JobState if state.is_terminal])


def _job_ids(cluster: Cluster) -> set[str]:
    with cluster.stack.store.database.reading() as session:
        return set(session.scalars(select(Job.id)))


def _write_claims(cluster: Cluster, history: HistoryWriter) -> None:
    """Writes the attempts in the logs; the newer program is named by its folder."""
    for worker in cluster.stack.workers:
        known = JOB_FORMAT + (worker.program != ROOT)
        for line in worker.log.read_text().splitlines():
            if '"Starting attempt' in line:
                history.write(Claimed(job=json.loads(line)["job"], known_format=known))


def _write_endings(cluster: Cluster, history: HistoryWriter, before: set[str]) -> None:
    with cluster.stack.store.database.reading() as session:
        explained = {
            row.denoiser_id: row.job_id
            for row in session.execute(select(Explanation.denoiser_id, Explanation.job_id))
            if row.denoiser_id is not None
        }
        part_of = {
            row.job_id: explained[row.id]
            for row in session.execute(select(Denoiser.id, Denoiser.job_id))
            if row.id in explained
        }
        provisional = select(Explanation.provisional_job_id, Explanation.job_id)
        part_of |= {first: final for first, final in session.execute(provisional) if first}
        for job in session.scalars(select(Job).order_by(Job.created_at)):
            if job.id in before:
                continue
            events = jobs.events(session, job.id, limit=100_000, tenant=job.tenant_id)
            states = [event.data["state"] for event in events if event.type is EventType.STATE]
            history.write(
                Ended(
                    job=job.id,
                    kind=job.kind,
                    part_of=part_of.get(job.id, job.id),
                    states=states,
                    format=job.format,
                )
            )


def _commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or "unknown"
