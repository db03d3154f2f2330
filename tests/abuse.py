"""Attacks the API and measures what other clients see: `python -m tests.abuse`.

Each attack is bounded in requests and in time. The attackers have addresses of their own
(127.0.0.2 and 127.0.0.3). Meanwhile a well-behaved client at 127.0.0.1, in a process of its own,
asks for health, reads and submits, and everything it sees is timed.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import httpx
import psutil

from d4explain.contracts.results import CounterfactualResult
from d4explain.stack.ports import free_port
from service import examples
from store.settings import Settings
from store.store import Store
from tests.conftest import Deployment

ATTACKERS = ("127.0.0.2", "127.0.0.3")
FULL_DISK = "a full disk"
MIB = 2**20
CALM_SECONDS = 2.0
SLOWEST_ANSWER_SECONDS = 60.0  # an attack ends then; the bound for answers is 10 s
DISK_MIB = 96


@dataclass(frozen=True)
class Timed:
    """One request of the well-behaved client."""

    what: str
    at: float
    seconds: float
    status: int  # 0: no answer


@dataclass
class Attack:
    """What one attack did and what it cost."""

    name: str
    began: float = 0.0
    ended: float = 0.0
    answers: list[tuple[int, float]] = field(default_factory=list)  # status, seconds
    recovered_seconds: float = 0.0
    peak_bytes: int = 0  # of the API's process
    peak_tree_bytes: int = 0  # with the processes that it starts to read large bodies

    @property
    def slowest(self) -> float:
        return max((seconds for _, seconds in self.answers), default=0.0)

    @property
    def statuses(self) -> dict[int, int]:
        found = [status for status, _ in self.answers]
        return {status: found.count(status) for status in sorted(set(found))}


@dataclass
class Report:
    attacks: list[Attack]
    timed: list[Timed]
    skipped: dict[str, str] = field(default_factory=dict)

    def during(self, attack: Attack, what: str) -> list[Timed]:
        """What began during the attack or was not over when it began."""
        return [
            one
            for one in self.timed
            if (one.what == "livez") == (what == "livez")
            and one.at <= attack.ended
            and one.at + one.seconds >= attack.began
        ]

    def percentile(self, what: str, share: float = 0.99) -> float:
        found = sorted(one.seconds for attack in self.attacks for one in self.during(attack, what))
        return found[min(len(found) - 1, int(share * len(found)))] if found else 0.0

    def failed(self) -> list[Timed]:
        return [one for one in self.timed if not 200 <= one.status < 300]

    def lines(self) -> Iterator[str]:
        head = f"{'attack':34} {'answers':26} slowest  livez p99  others p99  recovered  "
        yield head + "memory (all)"
        for attack in self.attacks:
            worst = [Report([attack], self.timed).percentile(what) for what in ("livez", "others")]
            said = ", ".join(f"{count}x{status}" for status, count in attack.statuses.items())
            yield (
                f"{attack.name:34} {said:26} {attack.slowest:6.2f}s  {1000 * worst[0]:6.0f} ms  "
                f"{1000 * worst[1]:7.0f} ms  {attack.recovered_seconds:6.2f} s"
                f"  {attack.peak_bytes / 1e6:4.0f} ({attack.peak_tree_bytes / 1e6:.0f}) MB"
            )
        for name, why in self.skipped.items():
            yield f"{name:34} skipped: {why}"
        yield (
            f"in all: livez p99 {1000 * self.percentile('livez'):.0f} ms, others p99 "
            f"{1000 * self.percentile('others'):.0f} ms, {len(self.failed())} of "
            f"{len(self.timed)} well-behaved requests failed"
        )


class Prober:
    """The well-behaved client, in a process of its own."""

    def __init__(self, port: int, job: str, explanation: str, question: bytes) -> None:
        context = multiprocessing.get_context("spawn")
        self._stop = context.Event()
        self._results, sender = context.Pipe(duplex=False)
        arguments = (port, job, explanation, question, self._stop, sender)
        self._process = context.Process(target=_probe, args=arguments, daemon=True)
        self._process.start()

    def stop(self) -> list[Timed]:
        self._stop.set()
        found: list[Timed] = self._results.recv()
        self._process.join()
        return found


def _probe(  # noqa: PLR0917 - a process is given its arguments by position
    port: int, job: str, explanation: str, question: bytes, stop: Event, results: Any
) -> None:
    found: list[Timed] = []
    headers = {"Content-Type": "application/json"}

    def ask(what: str, method: str, path: str, body: bytes | None = None) -> None:
        began = time.monotonic()
        status = 0
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            connection.request(method, path, body, headers if body else {})
            answer = connection.getresponse()
            answer.read()
            status = answer.status
            connection.close()
        except OSError:
            pass
        found.append(Timed(what, began, time.monotonic() - began, status))

    def health() -> None:
        while not stop.is_set():
            ask("livez", "GET", "/livez")
            time.sleep(0.02)

    def others() -> None:
        while not stop.is_set():
            ask("job", "GET", f"/v1/jobs/{job}")
            ask("list", "GET", "/v1/explanations?limit=5")
            ask("ready", "GET", "/readyz")
            ask("submit", "POST", "/v1/explanations", question)
            ask("drawing", "GET", f"/v1/explanations/{explanation}?format=svg")
            time.sleep(0.1)

    threads = [threading.Thread(target=run) for run in (health, others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.send(found)


class Api:
    """`python -m service` with what the attacks need in its store; nobody runs its jobs."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.folder = folder
        environment = {
            **os.environ,
            "D4_DATA_DIR": str(folder),
            "D4_PORT": str(self.port),
            "D4_REDIS_URL": "redis://127.0.0.1:1/0",
        }
        self._log = (folder.parent / f"{folder.name}.log").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "service"], env=environment, stdout=self._log, stderr=self._log
        )
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=30)
        deadline = time.monotonic() + 60
        while not self._answers():
            assert self.process.poll() is None, Path(self._log.name).read_text()
            assert time.monotonic() < deadline, "the API does not start"
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            return self.client.get("/livez").status_code == 200
        except httpx.TransportError:
            return False

    def close(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait(20)
        self._log.close()

    def memory(self) -> tuple[int, int]:
        """Of the API's process, and of it with its children."""
        own = psutil.Process(self.process.pid)
        tree = 0
        for child in own.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                tree += child.memory_info().rss
        return own.memory_info().rss, own.memory_info().rss + tree


def _graph(nodes: int, edges: int, seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    pairs = {(i, rng.randrange(i)) for i in range(1, nodes)}
    while len(pairs) < edges:
        first, second = sorted(rng.sample(range(nodes), 2), reverse=True)
        pairs.add((first, second))
    return {
        "nodes": [{"id": i, "x": [1.0]} for i in range(nodes)],
        "edges": [{"source": s, "target": t} for s, t in sorted(pairs)],
    }


def _result(graphs: Sequence[dict[str, Any]], copies: int = 1) -> CounterfactualResult:
    """A result with these graphs as counterfactuals; `copies` of each make it larger."""
    document = dict(examples.EXPLANATION["result"])
    found = document["answers"][0]
    best = found["counterfactuals"][0]
    answers = [
        {
            **found,
            "counterfactuals": [
                {**best, "graph": {**best["graph"], **graph}, "edits": []} for _ in range(copies)
            ],
        }
        for graph in graphs
    ]
    return CounterfactualResult.model_validate({**document, "answers": answers})


@dataclass(frozen=True)
class Stored:
    """What the attacks ask for."""

    waiting_job: str
    small: str
    drawings: str  # 40 graphs of 480 nodes
    large: str  # one of 4,096 nodes
    heavy: str  # a result of 40 MB
    question: bytes


def _fill(api: Api) -> Stored:
    with Store.open(Settings(data_dir=api.folder), migrate=False) as store:
        deployment = Deployment(store, api.client)
        gnn, dataset = deployment.gnn(), deployment.dataset()

        def finished(seed: int, result: CounterfactualResult | None) -> str:
            posted = deployment.explanation(gnn=gnn, dataset=dataset, seed=seed)
            deployment.finish_explanation(posted, result)
            return str(posted["id"])

        small = finished(1, None)
        drawings = finished(2, _result([_graph(480, 960, seed) for seed in range(40)]))
        large = finished(3, _result([_graph(4096, 32768, 0)]))
        heavy = finished(4, _result([_graph(4096, 32768, 1)], copies=18))
        waiting = deployment.explanation(gnn=gnn, dataset=dataset, seed=5)["job"]["id"]
        question = json.dumps(
            {
                "kind": "counterfactual",
                "gnn": gnn,
                "dataset": dataset,
                "graph": deployment.graph(),
            }
        ).encode()
    return Stored(waiting, small, drawings, large, heavy, question)


async def _exchange(
    port: int,
    place: int,
    head: str,
    body: Callable[[], Iterator[bytes]] | None = None,
    *,
    hold_seconds: float | None = None,
    head_ends: bool = True,
) -> tuple[int, float]:
    """One request of an attacker: status and seconds; held ones leave without reading the end."""
    began = time.monotonic()
    status = 0
    address = (ATTACKERS[place % len(ATTACKERS)], 0)
    try:
        async with asyncio.timeout(SLOWEST_ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, local_addr=address, limit=2**20
            )
            end = "\r\n\r\n" if head_ends else "\r\nX-Long: "
            writer.write(f"{head}\r\nHost: localhost{end}".encode())
            try:
                for chunk in body() if body else ():
                    writer.write(chunk)
                    await writer.drain()
                if hold_seconds is not None:
                    await asyncio.sleep(hold_seconds)
                    return 0, 0.0
                status = int((await reader.readline()).split()[1])
                while await reader.read(2**20):
                    pass
            finally:
                writer.close()
    except (OSError, IndexError, ValueError):
        pass  # refused and reset while it was sending
    except TimeoutError:
        status = -1
    return status, time.monotonic() - began


def _get(path: str, headers: str = "") -> str:
    return f"GET {path} HTTP/1.1\r\nConnection: close{headers}"


def _post(path: str, size: int) -> str:
    return (
        f"POST {path} HTTP/1.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
        f"Content-Length: {size}"
    )


def _numbers(size: int) -> Callable[[], Iterator[bytes]]:
    """A valid JSON document of this many bytes that is no valid reference set."""
    part = b"0," * (MIB // 2)

    def chunks() -> Iterator[bytes]:
        yield b'{"name": "n", "graphs": ['
        left = size - 28
        while left > 0:
            piece = part[: left - left % 2]
            if not piece:
                break
            yield piece
            left -= len(piece)
        yield b" " * left + b"0]}"

    return chunks


def _attacks(port: int, stored: Stored) -> list[tuple[str, Callable[[], Awaitable[Any]]]]:
    drawing = f"/v1/explanations/{stored.drawings}?graph="
    large = f"/v1/explanations/{stored.large}?format="
    wait = _get(f"/v1/jobs/{stored.waiting_job}", "\r\nPrefer: wait=60")
    events = _get(f"/v1/jobs/{stored.waiting_job}/events")
    size = 31 * MIB

    def many(count: int, head: Callable[[int], str], **how: Any) -> Callable[[], Awaitable[Any]]:
        return lambda: asyncio.gather(
            *(_exchange(port, place, head(place), **how) for place in range(count))
        )

    def head_of_100_mb() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * MIB

    forms = ("json", "svg", "graphml", "cytoscape", "pyg")
    return [
        ("40 drawings of 480 nodes", many(40, lambda i: _get(f"{drawing}{i}&format=svg"))),
        (
            "40 abandoned Cytoscape documents",
            many(40, lambda i: _get(f"{drawing}{i}&format=cytoscape"), hold_seconds=0.2),
        ),
        ("every format of 4,096 nodes", many(len(forms), lambda i: _get(large + forms[i]))),
        (
            "8 results of 40 MB",
            many(8, lambda _: _get(f"/v1/explanations/{stored.heavy}")),
        ),
        ("256 abandoned waits", many(256, lambda _: wait, hold_seconds=0.1)),
        ("256 held waits", many(256, lambda _: wait, hold_seconds=4.0)),
        ("300 event streams", many(300, lambda _: events, hold_seconds=4.0)),
        (
            "64 bodies of 31 MB",
            many(64, lambda _: _post("/v1/datasets", size), body=_numbers(size)),
        ),
        (
            "64 bodies that do not come",
            many(64, lambda _: _post("/v1/datasets", size), hold_seconds=4.0),
        ),
        (
            "4 heads of 100 MB",
            many(4, lambda _: _get("/livez"), body=head_of_100_mb, head_ends=False),
        ),
    ]


def _recover(client: httpx.Client, stored: Stored) -> float:
    """Seconds until reading, submitting and drawing all work again."""
    began = time.monotonic()
    headers = {"Content-Type": "application/json"}
    while time.monotonic() - began < SLOWEST_ANSWER_SECONDS:
        with contextlib.suppress(httpx.TransportError):
            answers = [
                client.get("/livez"),
                client.get(f"/v1/jobs/{stored.waiting_job}", headers={"Prefer": "wait=1"}),
                client.post("/v1/explanations", content=stored.question, headers=headers),
                client.get(f"/v1/explanations/{stored.drawings}?format=svg&graph=1"),
            ]
            applied = answers[1].headers.get("Preference-Applied")
            if all(answer.is_success for answer in answers) and applied:
                return time.monotonic() - began - 1.0  # less the second that was asked for
        time.sleep(0.05)
    return time.monotonic() - began


def run(folder: Path, only: str = "") -> Report:
    """Runs the attacks, or those whose names contain `only`, one after the other."""
    api = Api(folder / "api")
    is_over = threading.Event()
    done: list[Attack] = []

    def sample() -> None:
        while not is_over.wait(0.05):
            with contextlib.suppress(psutil.NoSuchProcess):
                own, tree = api.memory()
                for one in done[-1:]:
                    one.peak_bytes = max(one.peak_bytes, own)
                    one.peak_tree_bytes = max(one.peak_tree_bytes, tree)

    try:
        stored = _fill(api)
        prober = Prober(api.port, stored.waiting_job, stored.small, stored.question)
        sampler = threading.Thread(target=sample)
        sampler.start()
        time.sleep(3.0)  # the prober's process starts
        for name, attack in _attacks(api.port, stored):
            if only not in name:
                continue
            time.sleep(CALM_SECONDS)
            one = Attack(name, began=time.monotonic())
            done.append(one)
            one.answers = [answer for answer in asyncio.run(_gathered(attack)) if answer[1]]
            one.ended = time.monotonic()
            one.recovered_seconds = _recover(api.client, stored)
        timed = prober.stop()
        is_over.set()
        sampler.join()
        report = Report(done, timed)
    finally:
        is_over.set()
        api.close()
    if only in FULL_DISK:
        _fill_disk(folder / "disk", report)
    return report


def _fill_disk(folder: Path, report: Report) -> None:
    """An API on a small disk of its own, which is filled and then freed."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(folder)]
    try:
        subprocess.run(["mount", *options], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        report.skipped[FULL_DISK] = f"no disk can be mounted here ({error})"
        return
    try:
        api = Api(folder)
        try:
            report.attacks.append(_full_disk(api, report.timed))
        finally:
            api.close()
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _full_disk(api: Api, timed: list[Timed]) -> Attack:
    with Store.open(Settings(data_dir=api.folder)) as store:
        deployment = Deployment(store, api.client)
        posted = deployment.explanation()
        deployment.finish_explanation(posted)
    question = {
        "kind": "counterfactual",
        "gnn": posted["gnn"],
        "dataset": posted["dataset"],
        "graph": Deployment.graph(),
    }
    attack = Attack(FULL_DISK, began=time.monotonic())
    filling = api.folder / "filling"
    with filling.open("wb") as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * MIB)

    def ask(what: str, method: str, path: str, expected: int, **how: Any) -> bool:
        began = time.monotonic()
        answer = api.client.request(method, path, **how)
        seconds = time.monotonic() - began
        attack.answers.append((answer.status_code, seconds))
        is_expected = answer.status_code == expected
        timed.append(Timed(what, began, seconds, 200 if is_expected else answer.status_code))
        return is_expected

    for seed in range(20):
        ask("livez", "GET", "/livez", 200)
        ask("ready", "GET", "/readyz", 503)
        ask("submit", "POST", "/v1/explanations", 507, json={**question, "seed": seed})
        ask("read", "GET", f"/v1/explanations/{posted['id']}", 200)
    attack.ended = time.monotonic()
    filling.unlink()
    while time.monotonic() - attack.ended < SLOWEST_ANSWER_SECONDS:
        answers = [
            api.client.get("/readyz"),
            api.client.post("/v1/explanations", json={**question, "seed": 99}),
        ]
        if all(answer.is_success for answer in answers):
            break
        time.sleep(0.05)
    attack.recovered_seconds = time.monotonic() - attack.ended
    return attack


async def _gathered(attack: Callable[[], Awaitable[Any]]) -> list[tuple[int, float]]:
    found: list[tuple[int, float]] = await attack()
    return found


def main() -> int:
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "api").mkdir()
        report = run(Path(folder), only)
    print("\n".join(report.lines()))
    for one in report.failed()[:20]:
        print("failed:", one)
    return 0


if __name__ == "__main__":
    sys.exit(main())
