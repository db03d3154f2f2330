"""Clients of a run: they submit until a request is accepted, and read jobs all the time."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from d4explain.contracts.job_states import JobState
from tests.chaos.history import Answer, HistoryWriter, Read
from tests.chaos.workload import Work, accepted_job, result_address, result_digest

_PATIENCE_SECONDS = 180.0  # until a request that is never accepted is given up
_SHARE_REPEATED = 0.1  # of accepted requests, sent again with the same key
_SHARE_WAITING = 0.3  # of reads, with `Prefer: wait=1`
_SHARE_ENDED = 0.15  # of reads, of jobs that a reader saw end


@dataclass(frozen=True)
class Accepted:
    work: Work
    job: str
    resource: str


@dataclass(frozen=True)
class Outcome:
    """A job as the API shows it, with its result after a success."""

    status: int
    state: JobState | None = None
    has_started: bool = False
    result: str | None = None


def outcome(http: httpx.Client, one: Accepted, url: str, wait: int = 0) -> Outcome:
    answer = http.get(f"{url}/v1/jobs/{one.job}", headers={"Prefer": f"wait={wait}"})
    if not answer.is_success:
        return Outcome(answer.status_code)
    job = answer.json()
    state, result = JobState(job["state"]), None
    if state is JobState.SUCCEEDED:
        answer = http.get(url + result_address(one.work.path, one.resource))
        if not answer.is_success:
            return Outcome(answer.status_code)
        result = result_digest(answer.json())
    return Outcome(answer.status_code, state, job["started_at"] is not None, result)


class Clients:
    """Threads that share the API's addresses and the history."""

    def __init__(self, urls: Sequence[str], history: HistoryWriter, seed: int) -> None:
        self._urls = urls
        self._history = history
        self._seed = seed
        self._lock = threading.Lock()
        self._accepted: list[Accepted] = []
        self._ended: set[str] = set()
        self._stopping = threading.Event()

    @property
    def accepted(self) -> list[Accepted]:
        with self._lock:
            return list(self._accepted)

    def submit(self, http: httpx.Client, key: str, work: Work, rng: random.Random) -> Accepted:
        """Repeats the request with its key until it is accepted; sometimes once more."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline and not self._stopping.is_set():
            accepted = self._post(http, key, work, rng)
            if accepted is not None:
                if rng.random() < _SHARE_REPEATED:
                    self._post(http, key, work, rng)
                with self._lock:
                    self._accepted.append(accepted)
                return accepted
            time.sleep(rng.uniform(0.1, 0.5))
        raise TimeoutError(f"{work.name} was not accepted within {_PATIENCE_SECONDS:.0f} s")

    def submit_all(self, works: Sequence[Work], may_submit: Callable[[int], bool]) -> None:
        """Submits one work after the other, each as soon as `may_submit` allows its position."""
        rng = random.Random(self._seed)
        with _client() as http:
            for position, work in enumerate(works):
                while not may_submit(position) and not self._stopping.is_set():
                    time.sleep(0.02)
                self.submit(http, f"chaos-{position}", work, rng)

    @contextmanager
    def reading(self, count: int) -> Iterator[None]:
        """Runs this many readers."""
        threads = [
            threading.Thread(target=self._read_repeatedly, args=(f"reader {number}",))
            for number in range(count)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join()

    def read(self, http: httpx.Client, reader: str, one: Accepted, url: str, wait: int = 0) -> bool:
        """Reads a job and writes what was seen; whether there was an answer with a job."""
        asked_at = self._history.now()
        try:
            seen = outcome(http, one, url, wait)
        except httpx.TransportError:
            return False
        if seen.state is not None and seen.state.is_terminal:
            with self._lock:
                self._ended.add(one.job)
        self._history.write(Read(reader=reader, asked_at=asked_at, job=one.job, **vars(seen)))
        return seen.state is not None

    def read_all(self, reader: str) -> None:
        """Reads every accepted job once, after the last fault."""
        with _client() as http:
            for one in self.accepted:
                deadline = time.monotonic() + _PATIENCE_SECONDS
                while not self.read(http, reader, one, self._urls[0]):
                    assert time.monotonic() < deadline, f"{one.job} cannot be read"
                    time.sleep(0.2)

    def _read_repeatedly(self, reader: str) -> None:
        rng = random.Random(f"{self._seed} {reader}")
        with _client() as http:
            while not self._stopping.is_set():
                with self._lock:
                    live = [one for one in self._accepted if one.job not in self._ended]
                    chosen = self._accepted if rng.random() < _SHARE_ENDED else live
                    one = rng.choice(chosen[-60:]) if chosen else None
                if one is not None:
                    wait = 1 if rng.random() < _SHARE_WAITING else 0
                    self.read(http, reader, one, rng.choice(self._urls), wait)
                time.sleep(0.05)

    def _post(
        self, http: httpx.Client, key: str, work: Work, rng: random.Random
    ) -> Accepted | None:
        headers = {"Idempotency-Key": key, "Prefer": "respond-async"}
        try:
            answer = http.post(rng.choice(self._urls) + work.path, json=work.body, headers=headers)
        except httpx.TransportError:
            self._history.write(Answer(key=key, work=work.name, status=0))
            return None
        accepted = None
        if answer.is_success:
            accepted = Accepted(work, *accepted_job(work.path, answer.json()))
        self._history.write(
            Answer(
                key=key,
                work=work.name,
                status=answer.status_code,
                job=accepted and accepted.job,
                resource=accepted and accepted.resource,
            )
        )
        return accepted


def _client() -> httpx.Client:
    return httpx.Client(timeout=10)
