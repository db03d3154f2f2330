"""Commands that train the paper's denoiser as printed."""

from __future__ import annotations

from typing import Annotated

import typer

from bench.commands.options import Json, Save, Seed, open_target, open_task, select
from bench.console import console, show_progress, write_rows
from bench.data.splits import DataError
from bench.paper.long_run import CONFIGS, LongRun, measure_point
from bench.paper.sizes import PREFIX as SIZES_PREFIX
from bench.paper.sizes import chosen_size, measure_sizes, recipe_of
from bench.report.provenance import provenance
from bench.report.results_store import append_rows
from bench.report.tables import (
    paper_table,
)
from models.diffusion.paper.recipe import PRINTED_SIZES

app = typer.Typer()


@app.command("paper-sizes")
def paper_sizes(
    context: typer.Context,
    *,
    dataset: Annotated[
        list[str] | None, typer.Option(help="repeatable; default: the paper's data sets")
    ] = None,
    seed: Seed = 0,
    json_file: Json = None,
    save: Save = False,
) -> None:
    """Time steps of the paper's training; choose the largest network that a CPU can train."""
    rows = []
    for name in select(dataset, list(PRINTED_SIZES), "data set"):
        task = open_task(name, seed)
        target = open_target(task, seed)
        for row in measure_sizes(task, target, seed):
            console.print({key: row[key] for key in ("hidden", "blocks", "seconds_per_step")})
            rows.append({**row, **provenance(seed)})
    write_rows(context, rows, json_file, save, SIZES_PREFIX)


@app.command()
def paper(
    *,
    dataset: Annotated[str, typer.Option(help="a data set of the paper")] = "tree_cycle",
    minutes: Annotated[
        float, typer.Option(min=0, help="CPU minutes of training; 0 only measures")
    ] = 15,
    test: Annotated[int, typer.Option(min=1, help="held-out graphs or nodes to explain")] = 80,
    seed: Seed = 0,
    save: Annotated[bool, typer.Option("--keep", help="append to the saved curve")] = False,
) -> None:
    """Continue the paper's training from its checkpoint and add a point to its curve."""
    task = open_task(dataset, seed)
    try:
        size = chosen_size(task.name)
    except DataError as error:
        console.print(f"[red]{error}[/]")
        raise typer.Exit(2) from None
    run = LongRun(task, open_target(task, seed), recipe_of(size), seed)
    with show_progress() as on_progress:
        piece = run.train(minutes, on_progress)
        rows = measure_point(run, piece, CONFIGS, test=test, on_progress=on_progress)
    console.print(paper_table(rows))
    if save:
        command = f"python -m bench paper --dataset {task.name} --test {test} --seed {seed}"
        console.print(
            f"Written to {append_rows('paper', [{**row, 'command': command} for row in rows])}"
        )
