"""Jobs as moving bars."""

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
from d4explain.contracts.job_states import JobState

QUIET_LINE_SECONDS = 10.0  # how often a bar is told in words where nothing can move

UNSHOWN = {"loss_dist", "loss_cf", "seconds", "eta_seconds"}
SHORT = {"flip_rate": "flips", "detection_auc": "AUC"}
WORDS = {
    "probe": "probing the GNN",
    "predict": "predicting",
    "train": "training the denoiser",
    "counterfactual": "explaining graphs",
    "class": "explaining the class",
}


class JobBars:
    """One moving bar per job; where the output is no terminal, a line now and then."""

    def __init__(self, console: Console, describe: Callable[[Job], str] | None = None) -> None:
        self._console = console
        self._describe = describe or (lambda job: WORDS.get(job.kind, str(job.kind)))
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(table_column=Column(no_wrap=True, min_width=9)),
            TimeElapsedColumn(),
            # On a narrow terminal the figures at the end give way, not the count.
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
            self._console.print(line.rstrip(), markup=False, soft_wrap=True)


def metric_words(metrics: dict[str, Any]) -> str:
    """The numbers that a person follows; parts of the loss and the clock are left out."""
    return "  ".join(
        f"{SHORT.get(name, name)} {value:.3g}"
        for name, value in metrics.items()
        if isinstance(value, int | float) and name not in UNSHOWN
    )


def _state_words(job: Job) -> str:
    if job.state in (JobState.RUNNING, JobState.SUCCEEDED):
        return f" (attempt {job.attempt})" if job.attempt > 1 else ""
    return f" ({job.state})"
