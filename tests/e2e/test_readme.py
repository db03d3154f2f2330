"""The README's curl walk-through, run as it stands against a real embedded stack."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def walk_through() -> str:
    text = (ROOT / "README.md").read_text()
    block = re.search(r"<!-- walk-through -->\s*```sh\n(.*?)```", text, re.DOTALL)
    assert block, "the README has no block marked <!-- walk-through -->"
    return block.group(1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    port = free_port()
    environment = os.environ | {"D4_DATA_DIR": str(tmp_path / "data"), "D4_PORT": str(port)}
    stack = subprocess.Popen([sys.executable, "-m", "d4explain", "up"], env=environment)
    try:
        wait_until_ready(f"http://127.0.0.1:{port}", stack)
        yield f"http://127.0.0.1:{port}"
    finally:
        stack.terminate()
        stack.wait(timeout=30)


def wait_until_ready(address: str, stack: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert stack.poll() is None, f"the stack ended with {stack.returncode}"
        try:
            with urllib.request.urlopen(f"{address}/readyz", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError("the stack was not ready within 60 s")


def resubmitted(address: str, body: bytes) -> dict[str, Any]:
    """What the walk-through's question gives when it is sent again under the same key."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": "first-question"}
    request = urllib.request.Request(f"{address}/v1/explanations", body, headers)
    with urllib.request.urlopen(request, timeout=10) as again:
        told: dict[str, Any] = json.load(again)
        return told


@pytest.mark.skipif(shutil.which("curl") is None, reason="the walk-through needs curl")
def test_the_walk_through_of_the_readme_runs_as_written(address: str, tmp_path: Path) -> None:
    script = walk_through()
    assert "API=http://127.0.0.1:8400" in script
    script = script.replace("API=http://127.0.0.1:8400", f"API={address}")
    script = script.replace(".venv/bin/python", sys.executable)
    # Each answer in a file of its own, so that it can be read back here.
    script = script.replace(
        "\ncurl -sf $API/v1/explanations/$EXP\n",
        "\ncurl -sf $API/v1/explanations/$EXP > answer.json\n",
    )
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
        text=True,
        timeout=280,
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["state"] == "succeeded"
    [explained] = answer["result"]["answers"]
    assert explained["found"]
    best = explained["counterfactuals"][0]
    assert best["prediction"]["predicted_class"] != explained["prediction"]["predicted_class"]
    assert (tmp_path / "explanation.svg").read_text().startswith("<svg")
    sent = (tmp_path / "request.json").read_bytes().replace(b"\n", b"")  # as curl's -d @file does
    assert resubmitted(address, sent) == answer
    assert '"kind":"class"' in run.stdout.replace(" ", "")
