"""An API on a small disk that becomes full."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path
from typing import Any

from store.settings import Settings
from store.store import Store
from tests.abuse.exchange import MIB, TIMEOUT_SECONDS
from tests.abuse.report import Attack, Report, Timed
from tests.abuse.service import Api
from tests.conftest import Deployment

FULL_DISK = "a full disk"
DISK_MIB = 96


def fill_disk(folder: Path, report: Report) -> None:
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
