"""Commands that measure robustness and typicality."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from bench.commands.options import Json, Save, Seed, open_target, open_task, select
from bench.console import console, show_progress, write_rows
from bench.counterfactuals.instances import select_instances
from bench.counterfactuals.runs import CounterfactualRun
from bench.data.splits import DataError
from bench.report.tables import (
    robustness_table,
    typicality_table,
)
from bench.robustness.comparison import DATASETS, NOISE_SEEDS, RobustnessRun, robustness_rows
from bench.robustness.edit_rankings import RANKINGS
from bench.typicality.comparison import DATASETS as TYPICALITY_DATASETS
from bench.typicality.comparison import measure_typicality

app = typer.Typer()


@app.command()
def robustness(
    context: typer.Context,
    *,
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="name or path; repeatable; default: the paper's data sets"),
    ] = None,
    budget: Annotated[float, typer.Option(help="training seconds of the denoiser")] = 60,
    test: Annotated[int, typer.Option(min=1, help="held-out graphs to explain")] = 20,
    method: Annotated[
        list[str] | None, typer.Option(help="repeatable; default: all methods")
    ] = None,
    seed: Seed = 0,
    json_file: Json = None,
    save: Save = False,
) -> None:
    """Measure Top-K accuracy: how much of an explanation survives noise in the graph."""
    names = select(method, RANKINGS)
    documents: list[dict[str, Any]] = []
    for name in dataset or DATASETS:
        task = open_task(name, seed)
        target = open_target(task, seed)
        rows = []
        with show_progress() as on_progress:
            instances = select_instances(task, test, seed)
            run = CounterfactualRun(
                target,
                task.train.graphs,
                instances,
                budget=budget,
                seed=seed,
                on_progress=on_progress,
            )
            comparison = RobustnessRun(run)
            for ranking in names:
                graphs, origin = comparison.compare(ranking, on_progress)
                new_rows = robustness_rows(task.name, ranking, graphs, NOISE_SEEDS)
                rows += new_rows
                documents += [{**asdict(row), **origin, "budget": budget} for row in new_rows]
        console.print(robustness_table(rows))
    write_rows(context, documents, json_file, save)


@app.command()
def typicality(
    context: typer.Context,
    *,
    dataset: Annotated[
        list[str] | None, typer.Option(help="name or path; repeatable; default: the molecule sets")
    ] = None,
    budget: Annotated[float, typer.Option(help="training seconds of the denoiser")] = 180,
    splits: Annotated[int, typer.Option(min=1, help="random splits of the unseen graphs")] = 20,
    seed: Seed = 0,
    json_file: Json = None,
    save: Save = False,
) -> None:
    """Measure typicality: is it uniform on unseen graphs, and does it detect random edits?"""
    rows = []
    for name in dataset or TYPICALITY_DATASETS:
        task = open_task(name, seed)
        target = open_target(task, seed)
        with show_progress() as on_progress:
            try:
                rows.append(
                    measure_typicality(
                        task,
                        target,
                        budget=budget,
                        splits=splits,
                        seed=seed,
                        on_progress=on_progress,
                    )
                )
            except DataError as error:
                console.print(f"[red]{error}[/]")
                raise typer.Exit(2) from None
    console.print(typicality_table(rows))
    write_rows(context, rows, json_file, save)
