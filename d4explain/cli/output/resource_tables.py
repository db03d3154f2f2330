"""Lists and single resources, as tables or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel
from rich.markup import escape
from rich.table import Table

from d4explain.cli.output.progress_bars import format_metrics
from d4explain.cli.output.terminal import messages, output, print_json, print_line, wide_output
from d4explain.client.resources import Job

Item = TypeVar("Item", bound=BaseModel)


class Identified(Protocol):
    @property
    def id(self) -> str: ...


def print_list(
    items: Iterable[Item],
    columns: Mapping[str, Callable[[Item], object]],
    *,
    limit: int,
    as_json: bool,
    nothing: str,
) -> None:
    """The first items, one per row; `nothing` is printed if there are none."""
    shown = list(islice(items, limit + 1))
    rest, shown = len(shown) > limit, shown[:limit]
    if as_json:
        print_json(shown)
    elif not shown:
        output().print(nothing)
    else:
        table = Table(*columns, box=None)
        for column in table.columns:
            column.overflow = "fold"  # an id that is cut off cannot be copied
        for item in shown:
            table.add_row(*(escape(_text(cell(item))) for cell in columns.values()))
        wide_output().print(table)
    if rest:
        messages().print(f"[dim]there are more; --limit {10 * limit} shows them", soft_wrap=True)


def print_fields(fields: Mapping[str, object]) -> None:
    """One resource; fields that are None or empty are left out."""
    table = Table.grid(padding=(0, 2))
    for name, value in fields.items():
        if _text(value):
            table.add_row(f"[dim]{name}", escape(_text(value)))
    output().print(table)


def show_id(resource: Identified, as_json: bool) -> None:
    """A resource that was just created or changed: its id, or the whole of it."""
    print_json(resource) if as_json else print_line(resource.id)


def short_time(time: str | None) -> str:
    return "" if time is None else time[:16].replace("T", " ")


def job_progress(job: Job) -> str:
    """What a job is doing, or why it ended."""
    if job.error is not None:
        return job.error.message
    if job.waiting_for is not None:
        return f"waits for {job.waiting_for}"
    if job.progress is None:
        return ""
    return f"{job.progress.step}/{job.progress.total or '?'} {format_metrics(job.progress.metrics)}"


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return " ".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return f"{value:,.1f}" if isinstance(value, float) else str(value)
