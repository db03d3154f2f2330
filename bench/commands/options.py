"""The options that several commands share, and what they do with them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from bench.console import console
from bench.data.splits import DataError
from bench.data.tasks import Task, load_task
from bench.gnns.recipes import SECONDS
from bench.gnns.target_gnns import TargetGnn, load_target_gnn
from bench.gnns.training import show_epochs

Seed = Annotated[int, typer.Option(help="seed of splits, weights, instances and samples")]
Json = Annotated[
    Path | None, typer.Option("--json", help="write the rows to this file and a plot beside it")
]
TrainingBudget = Annotated[float, typer.Option(help="training seconds of the denoiser")]
Save = Annotated[bool, typer.Option("--keep", help="save the rows for the report")]


def select(names: list[str] | None, known: Sequence[str], kind: str = "method") -> list[str]:
    """The known names that were given, in their usual order, or all; exits on an unknown name."""
    unknown = sorted(set(names or ()).difference(known))
    if unknown:
        expected = ", ".join(known)
        console.print(f"[red]Unknown {kind} {', '.join(unknown)}; expected {expected}.[/]")
        raise typer.Exit(2)
    return [name for name in known if not names or name in names]


def open_task(name: str, seed: int) -> Task:
    try:
        return load_task(name, seed)
    except DataError as error:
        console.print(f"[red]{error}[/]")
        raise typer.Exit(2) from None


def open_target(task: Task, seed: int, seconds: float = SECONDS) -> TargetGnn:
    with show_epochs(console) as show:
        target = load_target_gnn(task, seed, show, seconds=seconds)
    console.print(
        f"{task.name}: GNN test accuracy {target.metrics.test_accuracy:.3f}, "
        + ("cached in" if target.cached else "saved to")
        + f" {target.folder}"
    )
    return target


def print_markdown(*parts: str) -> None:
    for part in parts:
        console.print(part, markup=False, soft_wrap=True)
