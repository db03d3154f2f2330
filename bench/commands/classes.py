"""Commands that measure class explanations and global counterfactuals."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bench.classes.comparison import CLASS_KEYS, class_rows
from bench.classes.comparison import DATASETS as CLASS_DATASETS
from bench.classes.figures import ClassRow
from bench.classes.methods import ALONE
from bench.classes.methods import OURS as OUR_CLASSES
from bench.classes.methods import PAPER as PAPER_CLASSES
from bench.commands.options import (
    Json,
    Save,
    Seed,
    TrainingBudget,
    open_target,
    open_task,
    print_markdown,
    select,
)
from bench.console import command_line, console, show_progress, write_rows
from bench.data.splits import DataError
from bench.global_counterfactuals.comparison import SOURCE_CLASSES, measure_global
from bench.report.class_tables import class_table_by_size
from bench.report.results_store import merge_rows, read_results
from bench.report.tables import (
    class_tables,
    global_table,
)
from models.global_counterfactuals.config import GlobalConfig

app = typer.Typer()


@app.command()
def classes(
    context: typer.Context,
    *,
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="name or path; repeatable; default: the paper's data sets"),
    ] = None,
    budget: Annotated[float, typer.Option(help="training seconds per denoiser")] = 60,
    seeds: Annotated[int, typer.Option(min=1, help="explanations of each class")] = 10,
    full: Annotated[bool, typer.Option("--full", help="add the paper's grid of K and T")] = False,
    label: Annotated[
        list[int] | None, typer.Option("--class", help="repeatable; default: those with a motif")
    ] = None,
    seed: Seed = 0,
    json_file: Json = None,
    save: Save = False,
) -> None:
    """Compare class explanations: ours, patterns mined without a denoiser, Algorithm 1.

    `--keep` saves every row as soon as it is measured, so that a long run may be interrupted.
    """
    rows: list[ClassRow] = []
    documents: list[dict[str, Any]] = []
    for name in dataset or CLASS_DATASETS:
        task = open_task(name, seed)
        target = open_target(task, seed)
        with show_progress() as on_progress:
            for row, document in class_rows(
                task,
                target,
                budget=budget,
                seeds=seeds,
                full=full,
                labels=label,
                seed=seed,
                on_progress=on_progress,
            ):
                rows.append(row)
                documents.append(document)
                if save:
                    saved = {**document, "command": command_line(context)}
                    merge_rows("classes", [saved], CLASS_KEYS)
    write_rows(context, documents, json_file, save=False)
    for table in class_tables(rows):
        console.print(table)


@app.command()
def table3(
    context: typer.Context,
    *,
    dataset: Annotated[
        list[str] | None, typer.Option(help="repeatable; default: the paper's data sets")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="repeatable; default: all class explainers")
    ] = None,
    budget: TrainingBudget = 60,
    seed: Seed = 0,
) -> None:
    """The paper's table of class explanations by size, with XGNN. Saves each row of `classes`."""
    names = select(method, [one.name for one in (PAPER_CLASSES, *OUR_CLASSES, *ALONE)])
    for name in dataset or CLASS_DATASETS[:4]:
        task = open_task(name, seed)
        target = open_target(task, seed)
        with show_progress() as on_progress:
            for _, row in class_rows(
                task,
                target,
                budget=budget,
                seeds=0,
                full=False,
                methods=names,
                seed=seed,
                on_progress=on_progress,
            ):
                saved = {**row, "command": command_line(context)}
                merge_rows("classes", [saved], CLASS_KEYS)
    print_markdown(*class_table_by_size(read_results()))


@app.command("global")
def global_counterfactuals(
    context: typer.Context,
    *,
    dataset: Annotated[
        list[str] | None, typer.Option(help="repeatable; default: mutagenicity, nci1, proteins")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="counterfactuals")] = 10,
    radius: Annotated[float, typer.Option(help="largest cost per node and edge")] = 0.1,
    starts: Annotated[int, typer.Option(min=1, help="starts of each counterfactual")] = 6,
    seed: Seed = 0,
    json_file: Json = None,
    save: Save = False,
) -> None:
    """Measure how much of a class a few counterfactuals cover."""
    rows = []
    for name in select(dataset, list(SOURCE_CLASSES), "data set"):
        config = GlobalConfig(SOURCE_CLASSES[name], count=count, radius=radius, seeds=starts)
        with show_progress() as on_progress:
            try:
                row = measure_global(
                    open_task(name, seed), config, seed=seed, on_progress=on_progress
                )
            except DataError as error:
                console.print(f"[red]{error}[/]")
                raise typer.Exit(2) from None
        rows.append(row)
    console.print(global_table(rows))
    write_rows(context, rows, json_file, save)
