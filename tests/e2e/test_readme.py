"""Runs the README's curl walk-through and Python example, as written, on an embedded stack."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def readme_block(mark: str, language: str) -> str:
    text = (ROOT / "README.md").read_text()
    block = re.search(rf"<!-- {mark} -->\s*```{language}\n(.*?)```", text, re.DOTALL)
    assert block, f"the README has no {language} block marked <!-- {mark} -->"
    return block.group(1)


def resubmit(address: str, body: bytes) -> dict[str, Any]:
    """Send the walk-through's request again with the same Idempotency-Key."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": "first-question"}
    request = urllib.request.Request(f"{address}/v1/explanations", body, headers)
    with urllib.request.urlopen(request, timeout=10) as again:
        explanation: dict[str, Any] = json.load(again)
        return explanation


def run(command: list[str], folder: Path) -> str:
    """Run an example in the folder and return its output."""
    completed = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
        text=True,
        timeout=580,
    )
    assert completed.returncode == 0, completed.stdout[-3000:] + completed.stderr[-3000:]
    return completed.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="the walk-through needs curl")
@pytest.mark.timeout(600)
def test_the_readme_examples_run_as_written(address: str, tmp_path: Path) -> None:
    script = readme_block("walk-through", "sh")
    assert "API=http://127.0.0.1:8400" in script
    script = script.replace("API=http://127.0.0.1:8400", f"API={address}")
    script = script.replace(".venv/bin/python", sys.executable)
    # Write the answer to a file so that this test can read it.
    script = script.replace(
        "\ncurl -sf $API/v1/explanations/$EXP\n",
        "\ncurl -sf $API/v1/explanations/$EXP > answer.json\n",
    )
    printed = run(["bash", "-euo", "pipefail", "-c", script], tmp_path)
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["state"] == "succeeded"
    [explained] = answer["result"]["answers"]
    assert explained["found"]
    best = explained["counterfactuals"][0]
    assert best["prediction"]["predicted_class"] != explained["prediction"]["predicted_class"]
    assert best["aim"] == "believable"
    assert best["verdict"] in ("meaningful", "brittle")
    judges = [judge for judge in answer["result"]["judges"] if judge["used"]]
    assert best["transfers"]["asked"] == len(judges) > 0
    assert (tmp_path / "explanation.svg").read_text().startswith("<svg")
    sent = (tmp_path / "request.json").read_bytes().replace(b"\n", b"")  # curl drops line breaks
    assert resubmit(address, sent) == answer
    assert '"kind":"class"' in printed.replace(" ", "")

    # The Python example uses the GNN that the walk-through trained.
    (tmp_path / "explanation.svg").unlink()
    code = readme_block("python", "python")
    assert 'Client("http://127.0.0.1:8400")' in code
    code = code.replace("http://127.0.0.1:8400", address)
    assert "action=" in run([sys.executable, "-c", code], tmp_path)
    assert (tmp_path / "explanation.svg").read_text().startswith("<svg")
