"""Terminal output and result files of the `python -m bench` commands."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from bench.progress import OnProgress
from bench.report.plots import draw
from bench.report.results_store import rows_to_json, save_rows

console = Console(width=None if sys.stdout.isatty() else 130)


@contextmanager
def show_progress() -> Iterator[OnProgress]:
    """Progress bars on a terminal; elsewhere a line per quarter of the steps."""
    if not console.is_terminal:

        def print_line(label: str, done: int, total: int) -> None:
            if done % max(total // 4, 1) == 0 or done == total:
                console.log(f"{label}: {done} of {total}")

        yield print_line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        bars: dict[str, TaskID] = {}

        def update_bar(label: str, done: int, total: int) -> None:
            if label not in bars:
                bars[label] = progress.add_task(label, total=total)
            progress.update(bars[label], completed=done)

        yield update_bar


def write_rows(
    context: typer.Context,
    rows: list[dict[str, Any]],
    json_file: Path | None,
    save: bool,
    command: str | None = None,
) -> None:
    """Add the command line to the rows, then write them to the JSON file and the results."""
    command = command or str(context.info_name)
    rows = [{**row, "command": command_line(context)} for row in rows]
    files: list[Path] = []
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(rows_to_json(rows))
        files.append(json_file)
        plot = json_file.with_suffix(".png")
        if draw(command, rows, plot):
            files.append(plot)
    if save:
        files += save_rows(command, rows)
    if files:
        console.print(f"Written to {', '.join(map(str, files))}")


def command_line(context: typer.Context) -> str:
    """The command that reproduces the rows, without options that name output files."""
    words = ["python", "-m", "bench", str(context.info_name)]
    for parameter in context.command.params:
        value = context.params.get(str(parameter.name))
        if value is True and parameter.name != "save":
            words.append(parameter.opts[0])
        if value is None or isinstance(value, bool | Path):
            continue
        for item in value if isinstance(value, list | tuple) else [value]:
            words += [parameter.opts[0], f"{item:g}" if isinstance(item, float) else str(item)]
    return shlex.join(words)
