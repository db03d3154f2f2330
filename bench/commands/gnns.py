"""The command that trains the GNNs to explain."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from bench.commands.options import Json, Save, Seed, open_target, open_task
from bench.console import console, write_rows
from bench.data.tasks import TASKS
from bench.gnns.recipes import SECONDS
from bench.report.tables import (
    gnn_table,
)

app = typer.Typer()


@app.command()
def gnns(
    context: typer.Context,
    *,
    dataset: Annotated[
        list[str] | None, typer.Option(help="name or path; repeatable; default: all names")
    ] = None,
    seconds: Annotated[float, typer.Option(help="most CPU seconds to train each GNN")] = SECONDS,
    seed: Seed = 0,
    json_file: Json = None,
    save: Save = False,
) -> None:
    """Train and cache the GNNs to explain; compare their test accuracy with the paper's."""
    rows = []
    for name in dataset or TASKS:
        task = open_task(name, seed)
        target = open_target(task, seed, seconds)
        figures = asdict(target.metrics)
        origin = figures.pop("provenance")
        rows.append({"dataset": task.name, **figures, "cached": target.cached, **origin})
    console.print(gnn_table(rows))
    write_rows(context, rows, json_file, save)
