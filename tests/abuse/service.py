"""The attacked API and its regular client."""

from __future__ import annotations

import contextlib
import http.client
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import httpx
import psutil

from d4explain.stack.ports import free_port
from tests.abuse.report import Timed


class RegularClient:
    """The regular client, in a separate process."""

    def __init__(
        self, port: int, job: str, explanation: str, request_body: bytes, key: str = ""
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._stop = context.Event()
        self._results, sender = context.Pipe(duplex=False)
        arguments = (port, job, explanation, request_body, key, self._stop, sender)
        self._process = context.Process(target=_send_requests, args=arguments, daemon=True)
        self._process.start()

    def stop(self) -> list[Timed]:
        self._stop.set()
        found: list[Timed] = self._results.recv()
        self._process.join()
        return found


def _send_requests(  # noqa: PLR0917 - a process gets positional arguments
    port: int, job: str, explanation: str, request_body: bytes, key: str, stop: Event, results: Any
) -> None:
    found: list[Timed] = []
    headers = {"Authorization": f"Bearer {key}"} if key else {}

    def send(what: str, method: str, path: str, body: bytes | None = None) -> None:
        began = time.monotonic()
        status = 0
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            media_type = {"Content-Type": "application/json"} if body else {}
            connection.request(method, path, body, headers | media_type)
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
