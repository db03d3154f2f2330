"""The progress of a job in terminals, notebooks and files."""

from __future__ import annotations

import io
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from d4explain.client.resources import Job
from d4explain.client.results.progress import bar_html, shown_progress
from tests.unit.d4explain.client.test_client import job


def running(step: int, total: int | None = 10) -> Job:
    return Job.model_validate(
        job("running", progress={"phase": "train", "step": step, "total": total})
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_one_line_and_removes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    terminal = Terminal()
    with shown_progress(terminal) as show:
        show(running(5))
        show(Job.model_validate(job("succeeded")))
    lines = terminal.getvalue().split("\r")
    assert lines[1].startswith("training the denoiser ████████████░░░░░░░░░░░░ 5/10 0 s")
    assert lines[2].startswith("training the denoiser (succeeded) " + "█" * 24)
    assert lines[-1] == "\x1b[K"
    assert "\n" not in terminal.getvalue()
    assert all(len(line.removesuffix("\x1b[K")) < 70 for line in lines)


def test_other_streams_stay_empty() -> None:
    stream = io.StringIO()
    with shown_progress(stream) as show:
        show(running(5))
    assert stream.getvalue() == ""


def test_frequent_changes_are_left_out() -> None:
    terminal = Terminal()
    with shown_progress(terminal) as show:
        for step in range(1000):
            show(running(step, 1000))
    assert terminal.getvalue().count("\r") < 100


def test_a_notebook_shows_a_bar_that_changes_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    handle = SimpleNamespace(update=shown.append)
    package, display = ModuleType("IPython"), ModuleType("IPython.display")
    shell = SimpleNamespace(kernel=object())
    vars(package).update(get_ipython=lambda: shell, display=display)

    def first(content: str, display_id: bool) -> Any:
        assert display_id
        shown.append(content)
        return handle

    vars(display).update(HTML=str, display=first)
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    with shown_progress(io.StringIO()) as show:
        show(running(5))
        show(Job.model_validate(job("succeeded")))
    assert ['value="0.500"' in shown[0], 'value="1.000"' in shown[1]] == [True, True]


def test_an_unknown_total_has_no_value() -> None:
    assert "value=" not in bar_html(running(3, None), 1.0)
