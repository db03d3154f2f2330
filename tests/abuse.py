"""Attacks the API and measures the response times of other clients: `python -m tests.abuse`.

The attacks have limited numbers of requests and limited time. The attackers use the addresses
127.0.0.2 and 127.0.0.3. Meanwhile a regular client at 127.0.0.1, in a separate process, checks
health, reads and submits, and records all response times.
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

from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.stack.ports import free_port
from service import examples
from store.settings import Settings
from store.store import Store
from tests.conftest import Deployment

ATTACKERS = ("127.0.0.2", "127.0.0.3")
FULL_DISK = "a full disk"
MIB = 2**20
PAUSE_SECONDS = 2.0
TIMEOUT_SECONDS = 60.0  # of one attack; the test allows 10 s per response
DISK_MIB = 96


@dataclass(frozen=True)
class Timed:
    """One request of the regular client."""

    what: str
    at: float
    seconds: float
    status: int  # 0 if there was no response


@dataclass
class Attack:
    """The responses to one attack, its duration and the memory used."""

    name: str
    began: float = 0.0
    ended: float = 0.0
    answers: list[tuple[int, float]] = field(default_factory=list)  # status, seconds
    recovered_seconds: float = 0.0
    peak_bytes: int = 0  # of the API's process
    peak_tree_bytes: int = 0  # including child processes, which read large bodies

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
        """Requests that overlap with the attack; all but `livez` count as `others`."""
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
            statuses = ", ".join(f"{count}x{status}" for status, count in attack.statuses.items())
            yield (
                f"{attack.name:34} {statuses:26} {attack.slowest:6.2f}s  "
                f"{1000 * worst[0]:6.0f} ms  {1000 * worst[1]:7.0f} ms  "
                f"{attack.recovered_seconds:6.2f} s  "
                f"{attack.peak_bytes / 1e6:4.0f} ({attack.peak_tree_bytes / 1e6:.0f}) MB"
            )
        for name, why in self.skipped.items():
            yield f"{name:34} skipped: {why}"
        yield (
            f"all attacks: livez p99 {1000 * self.percentile('livez'):.0f} ms, others p99 "
            f"{1000 * self.percentile('others'):.0f} ms, {len(self.failed())} of "
            f"{len(self.timed)} regular requests failed"
        )


class RegularClient:
    """The regular client, in a separate process."""

    def __init__(self, port: int, job: str, explanation: str, request_body: bytes) -> None:
        context = multiprocessing.get_context("spawn")
        self._stop = context.Event()
        self._results, sender = context.Pipe(duplex=False)
        arguments = (port, job, explanation, request_body, self._stop, sender)
        self._process = context.Process(target=_send_requests, args=arguments, daemon=True)
        self._process.start()

    def stop(self) -> list[Timed]:
        self._stop.set()
        found: list[Timed] = self._results.recv()
        self._process.join()
        return found


def _send_requests(  # noqa: PLR0917 - a process gets positional arguments
    port: int, job: str, explanation: str, request_body: bytes, stop: Event, results: Any
) -> None:
    found: list[Timed] = []
    headers = {"Content-Type": "application/json"}

    def send(what: str, method: str, path: str, body: bytes | None = None) -> None:
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
            send("livez", "GET", "/livez")
            time.sleep(0.02)

    def others() -> None:
        while not stop.is_set():
            send("job", "GET", f"/v1/jobs/{job}")
            send("list", "GET", "/v1/explanations?limit=5")
            send("ready", "GET", "/readyz")
            send("submit", "POST", "/v1/explanations", request_body)
            send("drawing", "GET", f"/v1/explanations/{explanation}?format=svg")
            time.sleep(0.1)

    threads = [threading.Thread(target=run) for run in (health, others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.send(found)


class Api:
    """A running `python -m service` without workers."""

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
            assert time.monotonic() < deadline, "the API did not start"
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
        """The bytes used by the API's process, without and with its child processes."""
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
    """Resources that the attacks request."""

    waiting_job: str
    small: str
    drawings: str  # 40 graphs of 480 nodes
    large: str  # one graph of 4,096 nodes
    heavy: str  # a result of 40 MB
    request_body: bytes


def _store_resources(api: Api) -> Stored:
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
        request_body = json.dumps(
            {
                "kind": "counterfactual",
                "gnn": gnn,
                "dataset": dataset,
                "graph": deployment.graph(),
            }
        ).encode()
    return Stored(waiting, small, drawings, large, heavy, request_body)


async def _exchange(
    port: int,
    number: int,
    head: str,
    body: Callable[[], Iterator[bytes]] | None = None,
    *,
    hold_seconds: float | None = None,
    head_ends: bool = True,
) -> tuple[int, float]:
    """Sends one request of an attacker; returns status and seconds.

    With `hold_seconds`, it disconnects after this time without reading the response.
    """
    began = time.monotonic()
    status = 0
    address = (ATTACKERS[number % len(ATTACKERS)], 0)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
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
        pass  # the API refused the request and closed the connection
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
    """A JSON document of this size that is not a valid reference set."""
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

    def many(
        count: int, head: Callable[[int], str], **options: Any
    ) -> Callable[[], Awaitable[Any]]:
        return lambda: asyncio.gather(
            *(_exchange(port, number, head(number), **options) for number in range(count))
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
            "64 bodies that are never sent",
            many(64, lambda _: _post("/v1/datasets", size), hold_seconds=4.0),
        ),
        (
            "4 heads of 100 MB",
            many(4, lambda _: _get("/livez"), body=head_of_100_mb, head_ends=False),
        ),
    ]


def _wait_for_recovery(client: httpx.Client, stored: Stored) -> float:
    """Waits until reading, submitting and drawing work again; returns the seconds."""
    began = time.monotonic()
    headers = {"Content-Type": "application/json"}
    while time.monotonic() - began < TIMEOUT_SECONDS:
        with contextlib.suppress(httpx.TransportError):
            answers = [
                client.get("/livez"),
                client.get(f"/v1/jobs/{stored.waiting_job}", headers={"Prefer": "wait=1"}),
                client.post("/v1/explanations", content=stored.request_body, headers=headers),
                client.get(f"/v1/explanations/{stored.drawings}?format=svg&graph=1"),
            ]
            applied = answers[1].headers.get("Preference-Applied")
            if all(answer.is_success for answer in answers) and applied:
                return time.monotonic() - began - 1.0  # without the requested wait of one second
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
        stored = _store_resources(api)
        client = RegularClient(api.port, stored.waiting_job, stored.small, stored.request_body)
        sampler = threading.Thread(target=sample)
        sampler.start()
        time.sleep(3.0)  # the process of the regular client starts
        for name, attack in _attacks(api.port, stored):
            if only not in name:
                continue
            time.sleep(PAUSE_SECONDS)
            one = Attack(name, began=time.monotonic())
            done.append(one)
            one.answers = [answer for answer in asyncio.run(_run_attack(attack)) if answer[1]]
            one.ended = time.monotonic()
            one.recovered_seconds = _wait_for_recovery(api.client, stored)
        timed = client.stop()
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
    """Runs an API on a small separate disk, fills the disk and frees it."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(folder)]
    try:
        subprocess.run(["mount", *options], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        report.skipped[FULL_DISK] = f"cannot mount a disk ({error})"
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
    request_body = {
        "kind": "counterfactual",
        "gnn": posted["gnn"],
        "dataset": posted["dataset"],
        "graph": Deployment.graph(),
    }
    attack = Attack(FULL_DISK, began=time.monotonic())
    filler = api.folder / "filler"
    with filler.open("wb") as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * MIB)

    def send(what: str, method: str, path: str, expected: int, **options: Any) -> bool:
        began = time.monotonic()
        answer = api.client.request(method, path, **options)
        seconds = time.monotonic() - began
        attack.answers.append((answer.status_code, seconds))
        is_expected = answer.status_code == expected
        timed.append(Timed(what, began, seconds, 200 if is_expected else answer.status_code))
        return is_expected

    for seed in range(20):
        send("livez", "GET", "/livez", 200)
        send("ready", "GET", "/readyz", 503)
        send("submit", "POST", "/v1/explanations", 507, json={**request_body, "seed": seed})
        send("read", "GET", f"/v1/explanations/{posted['id']}", 200)
    attack.ended = time.monotonic()
    filler.unlink()
    while time.monotonic() - attack.ended < TIMEOUT_SECONDS:
        answers = [
            api.client.get("/readyz"),
            api.client.post("/v1/explanations", json={**request_body, "seed": 99}),
        ]
        if all(answer.is_success for answer in answers):
            break
        time.sleep(0.05)
    attack.recovered_seconds = time.monotonic() - attack.ended
    return attack


async def _run_attack(attack: Callable[[], Awaitable[Any]]) -> list[tuple[int, float]]:
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
