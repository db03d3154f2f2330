"""How things look at the terminal: two consoles, moving bars, small words for numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from d4explain.resources import Job
from store.job_states import JobState
from store.results import Edit

QUIET_LINE_SECONDS = 10.0  # how often a bar is told in words where nothing can move

WORDS = {
    "probe": "probing the GNN",
    "predict": "predicting",
    "train": "training the denoiser",
    "counterfactual": "explaining graphs",
    "class_explanation": "explaining the class",
}


def output() -> Console:
    """For results."""
    return Console(highlight=False)


def messages() -> Console:
    """For progress and errors, so that results can be piped."""
    return Console(stderr=True, highlight=False)


class JobBars:
    """One moving bar per job; where the output is no terminal, a line now and then."""

    def __init__(self, console: Console, describe: Callable[[Job], str] | None = None) -> None:
        self._console = console
        self._describe = describe or (lambda job: WORDS.get(job.kind, str(job.kind)))
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[metrics]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def __call__(self, job: Job) -> None:
        """Shows the job as it is now: what `Client.wait` calls."""
        progress = job.progress
        step, total = (progress.step, progress.total) if progress else (0, None)
        metrics = metric_words(progress.metrics) if progress else ""
        words = self._describe(job) + _state_words(job)
        if job.state is JobState.SUCCEEDED:
            total = total or 1
            step = total
        if not self._console.is_terminal:
            self._tell(job, f"{words} {step}/{total or '?'} {metrics}")
            return
        if job.id not in self._tasks:
            self._tasks[job.id] = self._bars.add_task(words, total=total, metrics="")
        self._bars.update(
            self._tasks[job.id], description=words, completed=step, total=total, metrics=metrics
        )

    def _tell(self, job: Job, line: str) -> None:
        now = time.monotonic()
        if job.is_done or now - self._last_line >= QUIET_LINE_SECONDS:
            self._last_line = now
            self._console.print(line.rstrip(), markup=False)


def metric_words(metrics: dict[str, Any]) -> str:
    return "  ".join(
        f"{name.replace('_', ' ')} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in metrics.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    )


def edit_words(edits: Sequence[Edit]) -> str:
    """+ for an added edge, - for a removed one."""
    signs = {"add": "[green]+", "remove": "[red]-"}
    return "  ".join(
        f"{signs[edit.action]}{escape(f'({edit.source}, {edit.target})')}[/]" for edit in edits
    )


def number(value: float | None, form: str = ".2f") -> str:
    return "-" if value is None else format(value, form)


def _state_words(job: Job) -> str:
    if job.state in (JobState.RUNNING, JobState.SUCCEEDED):
        return f" (attempt {job.attempt})" if job.attempt > 1 else ""
    return f" ({job.state})"
