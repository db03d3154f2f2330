"""Attacks the API and measures the response times of other clients: `python -m tests.abuse`.

The attacks have limited numbers of requests and limited time. The attackers use the addresses
127.0.0.2 and 127.0.0.3. Meanwhile a regular client at 127.0.0.1, in a separate process, checks
health, reads and submits, and records all response times.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.abuse.attacks import attacks
from tests.abuse.exchange import TIMEOUT_SECONDS
from tests.abuse.full_disk import FULL_DISK, fill_disk
from tests.abuse.report import Attack, Report
from tests.abuse.service import Api, RegularClient
from tests.abuse.stored import Stored, store_resources
from tests.abuse.tenants import FLOOD, flood

PAUSE_SECONDS = 2.0


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
        stored = store_resources(api)
        client = RegularClient(api.port, stored.waiting_job, stored.small, stored.request_body)
        sampler = threading.Thread(target=sample)
        sampler.start()
        time.sleep(3.0)  # the process of the regular client starts
        for name, attack in attacks(api.port, stored):
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
    if only in FLOOD:
        flood(folder / "tenants", report)
    if only in FULL_DISK:
        fill_disk(folder / "disk", report)
    return report


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
