"""Commands that measure the explainers: the paper's tables, run times, known motifs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, cast

import typer

from bench.commands.options import (
    Save,
    Seed,
    TrainingBudget,
    open_target,
    open_task,
    print_markdown,
    select,
)
from bench.console import command_line, console, show_progress
from bench.explainers.rows import COMMAND as TABLES_COMMAND
from bench.explainers.rows import DATASETS as TABLE_DATASETS
from bench.explainers.rows import KEYS as TABLE_KEYS
from bench.explainers.rows import METHODS as TABLE_METHODS
from bench.explainers.rows import missing_rows
from bench.explainers.sanity import DATASETS as SANITY_DATASETS
from bench.explainers.sanity import KEYS as SANITY_KEYS
from bench.explainers.sanity import sanity_row
from bench.explainers.tables import run_time, table_1, table_2, verdicts
from bench.report.provenance import provenance
from bench.report.results_store import Row, merge_rows, read_results
from models.explainers.catalogue import EXPLAINERS, ExplainerName

TableSets = Annotated[
    list[str] | None, typer.Option("--dataset", help="repeatable; default: the paper's eight")
]
TableMethods = Annotated[
    list[str] | None, typer.Option("--method", help="repeatable; default: all rows")
]
TableTest = Annotated[int, typer.Option(min=1, help="held-out graphs or nodes to explain")]
TableSeeds = Annotated[
    list[int] | None, typer.Option("--seed", help="repeatable; default: 0, 1 and 2")
]

app = typer.Typer()


@app.command()
def table1(
    context: typer.Context,
    *,
    dataset: TableSets = None,
    method: TableMethods = None,
    budget: TrainingBudget = 60,
    test: TableTest = 60,
    seed: TableSeeds = None,
) -> None:
    """The paper's Table 1: CF-ACC and fidelity AUC of all explainers. Saves each row; resumes."""
    rows = _paper_rows(context, dataset, method, budget=budget, test=test, seeds=seed)
    print_markdown(table_1(rows), *verdicts(rows))


@app.command()
def table2(
    context: typer.Context,
    *,
    dataset: TableSets = None,
    method: TableMethods = None,
    budget: TrainingBudget = 60,
    test: TableTest = 60,
    seed: TableSeeds = None,
) -> None:
    """The paper's Table 2: MMD, with transfer, C2ST and CPU time. The rows are those of Table 1."""
    rows = _paper_rows(context, dataset, method, budget=budget, test=test, seeds=seed)
    print_markdown(table_2(rows), *verdicts(rows))


@app.command()
def runtime(
    context: typer.Context,
    *,
    dataset: TableSets = None,
    method: TableMethods = None,
    budget: TrainingBudget = 60,
    test: TableTest = 60,
    seed: TableSeeds = None,
) -> None:
    """The paper's run times: CPU seconds per instance. The rows are those of Table 1."""
    print_markdown(
        run_time(_paper_rows(context, dataset, method, budget=budget, test=test, seeds=seed))
    )


@app.command()
def sanity(
    context: typer.Context,
    *,
    dataset: Annotated[
        list[str] | None, typer.Option(help="repeatable; default: both sets with known motifs")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="repeatable; default: all explainers")
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, help="nodes of motifs to explain")] = 60,
    seed: Seed = 0,
    save: Save = False,
) -> None:
    """Do the explainers find the motif that decides? Beside the figures of their own papers."""
    for name in dataset or SANITY_DATASETS:
        task = open_task(name, seed)
        target = open_target(task, seed)
        for explainer in select(method, list(EXPLAINERS)):
            with show_progress() as on_progress:
                row = sanity_row(
                    task,
                    target.gnn,
                    cast(ExplainerName, explainer),
                    nodes=nodes,
                    seed=seed,
                    on_progress=on_progress,
                )
            console.print(asdict(row))
            if save:
                command = command_line(context)
                saved = {**asdict(row), **provenance(seed), "command": command}
                merge_rows("sanity", [saved], SANITY_KEYS)


def _paper_rows(
    context: typer.Context,
    datasets: list[str] | None,
    methods: list[str] | None,
    *,
    budget: float,
    test: int,
    seeds: list[int] | None,
) -> list[Row]:
    """The rows of the paper's tables; measures and saves those that are missing."""
    wanted = select(methods, TABLE_METHODS)
    rows: list[Row] = []
    for name in datasets or TABLE_DATASETS:
        for seed in seeds or (0, 1, 2):
            task = open_task(name, seed)
            target = open_target(task, seed)
            saved = read_results().rows(TABLES_COMMAND, task.name)
            with show_progress() as on_progress:
                for row in missing_rows(
                    task,
                    target,
                    wanted,
                    saved,
                    budget=budget,
                    test=test,
                    seed=seed,
                    on_progress=on_progress,
                ):
                    command = command_line(context)
                    merge_rows(TABLES_COMMAND, [{**row, "command": command}], TABLE_KEYS)
        rows += read_results().rows(TABLES_COMMAND, task.name)
    return rows
