"""Progress bars of jobs."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column

from d4explain.client.resources import Job
from d4explain.client.results.progress import JOB_TITLES
from d4explain.contracts.job_states import JobState

LINE_SECONDS = 10.0  # time between progress lines if the output is not a terminal

HIDDEN_METRICS = {"loss_dist", "loss_cf", "seconds", "eta_seconds", "epoch", "epochs"}
SHORT_NAMES = {"flip_rate": "flips", "detection_auc": "AUC"}


class JobProgressBars:
    """One bar per job; prints a line now and then if the output is not a terminal."""

    def __init__(self, console: Console, describe: Callable[[Job], str] | None = None) -> None:
        self._console = console
        self._describe = describe or (lambda job: JOB_TITLES.get(job.kind, str(job.kind)))
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=9)),
            TimeElapsedColumn(),
            # A narrow terminal cuts off the metrics, not the count.
            TextColumn(
                "[dim]{task.fields[metrics]}",
                table_column=Column(no_wrap=True, overflow="ellipsis"),
            ),
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
        """Show the current state of the job; the callback of `Client.wait`."""
        progress = job.progress
        step, total = (progress.step, progress.total) if progress else (0, None)
        metrics = format_metrics(progress.metrics) if progress else ""
        title = self._describe(job) + _state_suffix(job)
        if job.state is JobState.SUCCEEDED:
            total = total or 1
            step = total
        if not self._console.is_terminal:
            self._print_line(job, f"{title} {step}/{total or '?'} {metrics}")
            return
        if job.id not in self._tasks:
            self._tasks[job.id] = self._bars.add_task(title, total=total, metrics="")
        self._bars.update(
            self._tasks[job.id], description=title, completed=step, total=total, metrics=metrics
        )

    def _print_line(self, job: Job, line: str) -> None:
        now = time.monotonic()
        if job.is_done or now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            self._console.print(line.rstrip(), markup=False, soft_wrap=True)


def format_metrics(metrics: dict[str, Any]) -> str:
    """The main metrics, without the parts of the loss and the times."""
    return "  ".join(
        f"{SHORT_NAMES.get(name, name)} {value:.3g}"
        for name, value in metrics.items()
        if isinstance(value, int | float) and name not in HIDDEN_METRICS
    )


def _state_suffix(job: Job) -> str:
    if job.state in (JobState.RUNNING, JobState.SUCCEEDED):
        return f" (attempt {job.attempt})" if job.attempt > 1 else ""
    return f" ({job.state})"
