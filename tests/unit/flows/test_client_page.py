"""The Python lines of docs/client.md run as written, against the real API with a worker."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.flows.served_api import serving

PAGE = Path(__file__).parents[3] / "docs" / "client.md"


def test_the_lines_of_the_page_run(
    deployed: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 7
    names: dict[str, Any] = {"__name__": "page"}
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks[0], f"{PAGE.name}, training", "exec"), names)
    with serving(deployed()) as address:
        monkeypatch.setenv("D4_URL", address)
        for number, block in enumerate(blocks[1:], start=1):
            exec(compile(block, f"{PAGE.name}, block {number}", "exec"), names)
    assert (tmp_path / "chain.svg").read_text().startswith("<svg")
    printed = capsys.readouterr().out
    assert "action='add'" in printed
    assert f"{['open', 'ring'] * 6}" in printed
    assert "[True, True, True]" in printed
    assert "{'team': 'risk', 'reviewed': True}" in printed
    assert "/target_class" in printed


def test_the_lines_of_the_journey_are_few() -> None:
    """From a trained model to a saved drawing: at most ten lines."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    journey = [line for line in blocks[1].splitlines() if line.strip()]
    assert journey[0] == "from d4explain import Client"
    assert len(journey) <= 10
