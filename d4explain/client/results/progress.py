"""Shows the progress of a job: a line in a terminal, a bar in a notebook, otherwise nothing."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, TextIO

from d4explain.client.resources import Job

JOB_TITLES = {
    "probe": "probing the GNN",
    "predict": "predicting",
    "train": "training the denoiser",
    "witnesses": "training witnesses",
    "provisional": "finding a provisional answer",
    "counterfactual": "explaining graphs",
    "class": "explaining the class",
    "global": "finding global counterfactuals",
}
_BAR_WIDTH = 24  # characters
_MIN_SECONDS = 0.1  # between two updates of the same job

Show = Callable[[Job, float], None]  # the job and the seconds since the wait began


@contextmanager
def shown_progress(stream: TextIO | None = None) -> Iterator[Callable[[Job], None]]:
    """A callback for `Client.wait` that shows jobs as they change."""
    stream = sys.stderr if stream is None else stream
    if _in_notebook():
        yield _Throttled(_NotebookBar())
    elif stream.isatty():
        line = _TerminalLine(stream)
        try:
            yield _Throttled(line)
        finally:
            line.end()
    else:
        yield lambda _job: None


class _Throttled:
    """Passes on changes of the state at once, and changes of the progress now and then."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._began = time.monotonic()
        self._last: tuple[str, str, str] | None = None
        self._shown_at = 0.0

    def __call__(self, job: Job) -> None:
        now = time.monotonic()
        phase = "" if job.progress is None else job.progress.phase
        current = job.id, str(job.state), phase
        if current != self._last or now - self._shown_at >= _MIN_SECONDS:
            self._last, self._shown_at = current, now
            self._show(job, now - self._began)


class _TerminalLine:
    """One line that overwrites itself."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = False

    def __call__(self, job: Job, seconds: float) -> None:
        share = _share(job)
        filled = round(_BAR_WIDTH * (share or 0))
        bar = "█" * filled + "░" * (_BAR_WIDTH - filled)
        text = f"{_title(job)} {bar} {_count(job)} {seconds:.0f} s"
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r{text[:width]}\x1b[K")
        self._stream.flush()
        self._shown = True

    def end(self) -> None:
        """Remove the line: the answer says what came out."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


class _NotebookBar:
    """An HTML progress element, updated in place."""

    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, job: Job, seconds: float) -> None:
        from IPython.display import HTML, display  # noqa: PLC0415

        content = HTML(bar_html(job, seconds))
        if self._handle is None:
            self._handle = display(content, display_id=True)
        else:
            self._handle.update(content)


def bar_html(job: Job, seconds: float) -> str:
    share = _share(job)
    value = "" if share is None else f'value="{share:.3f}"'
    return (
        f'<progress {value} max="1" style="width:16em;vertical-align:middle"></progress> '
        f"{escape(_title(job))} {_count(job)} {seconds:.0f} s"
    )


def _title(job: Job) -> str:
    title = JOB_TITLES.get(job.kind, str(job.kind))
    return title if job.state == "running" else f"{title} ({job.state})"


def _share(job: Job) -> float | None:
    """Of the work done; None if the job does not know."""
    if job.state == "succeeded":
        return 1.0
    if job.progress is None or not job.progress.total:
        return None
    return min(1.0, job.progress.step / job.progress.total)


def _count(job: Job) -> str:
    if job.progress is None or not job.progress.total:
        return ""
    return f"{job.progress.step}/{job.progress.total}"


def _in_notebook() -> bool:
    """Whether a Jupyter kernel runs this process; IPython in a terminal is none."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
