"""Commands that measure counterfactuals: all methods, believable answers, two dumps, variants."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.ablation.comparison import DATASETS as ABLATION_DATASETS
from bench.ablation.comparison import KEYS as ABLATION_KEYS
from bench.ablation.comparison import VARIANTS, measure_ablation
from bench.ablation.tables import ablation_page, saved_ablation
from bench.commands.options import Json, Save, Seed, open_target, open_task, select
from bench.console import command_line, console, show_progress, write_rows
from bench.counterfactuals.comparison import compare_methods
from bench.counterfactuals.dump import dump
from bench.counterfactuals.instances import InstancePart
from bench.counterfactuals.methods import BELIEVABILITY, METHODS, SEARCHES
from bench.counterfactuals.paired import compare_dumps
from bench.data.splits import DataError
from bench.report.results_store import merge_rows
from bench.report.tables import (
    believability_table,
    counterfactual_tables,
    judge_table,
    paired_table,
)

app = typer.Typer()


@app.command()
def counterfactual(
    context: typer.Context,
    *,
    dataset: Annotated[
        str, typer.Option(help="name, TU folder or zip, or SMILES csv")
    ] = "ba3motif",
    budget: Annotated[float, typer.Option(help="training seconds per denoiser")] = 60,
    test: Annotated[int, typer.Option(min=1, help="held-out graphs or nodes to explain")] = 60,
    instances: Annotated[
        InstancePart, typer.Option(help="part to explain; choose settings on validation instances")
    ] = InstancePart.TEST,
    method: Annotated[
        list[str] | None, typer.Option(help="repeatable; default: ours and plain searches")
    ] = None,
    seed: Seed = 0,
    json_file: Json = None,
    save: Save = False,
    dump_to: Annotated[
        Path | None,
        typer.Option("--dump", help="write GNN, instances and all edits to this folder"),
    ] = None,
) -> None:
    """Compare our method, its ablations, the paper's sampler and plain searches on one GNN."""
    if save and instances is not InstancePart.TEST:
        console.print("[red]--keep saves results for the report, which shows test instances.[/]")
        raise typer.Exit(2)
    names = select(method, METHODS) if method else list(SEARCHES)
    task = open_task(dataset, seed)
    target = open_target(task, seed)
    with show_progress() as on_progress:
        comparison = compare_methods(
            task,
            target,
            names,
            budget=budget,
            test=test,
            seed=seed,
            part=instances,
            on_progress=on_progress,
        )
    for table in (
        *counterfactual_tables(comparison.results),
        believability_table(comparison.documents, comparison.realism.untouched),
        judge_table(comparison.judges),
    ):
        console.print(table)
    for remark in comparison.remarks:
        console.print(remark)
    write_rows(context, comparison.documents, json_file, save)
    if dump_to is not None:
        dump(dump_to, target, comparison.instances, comparison.answers)
        console.print(f"Written GNN, instances and edits to {dump_to}")


@app.command()
def paired(
    before: Annotated[Path, typer.Argument(help="folder of `counterfactual --dump`")],
    after: Annotated[Path, typer.Argument(help="another one, with the same GNN and instances")],
    seed: Seed = 0,
) -> None:
    """Compare the AUC of two dumps, for example of two commits, instance by instance."""
    try:
        rows = compare_dumps(before, after, seed=seed)
    except (DataError, OSError) as error:
        console.print(f"[red]{error}[/]")
        raise typer.Exit(2) from None
    console.print(paired_table(rows))


@app.command()
def believable(
    context: typer.Context,
    *,
    dataset: Annotated[str, typer.Option(help="graph data set: name or path")] = "mutagenicity",
    budget: Annotated[float, typer.Option(help="training seconds of the denoiser")] = 120,
    test: Annotated[int, typer.Option(min=1, help="test graphs to explain")] = 100,
    method: Annotated[
        list[str] | None, typer.Option(help="repeatable; default: those of the report")
    ] = None,
    seed: Seed = 1,
    save: Save = False,
) -> None:
    """Transfer and realism of believable answers beside minimal, greedy and random ones."""
    names = select(method, METHODS) if method else list(BELIEVABILITY)
    task = open_task(dataset, seed)
    target = open_target(task, seed)
    with show_progress() as on_progress:
        comparison = compare_methods(
            task,
            target,
            names,
            budget=budget,
            test=test,
            seed=seed,
            exhaustive=False,
            on_progress=on_progress,
        )
    console.print(believability_table(comparison.documents, comparison.realism.untouched))
    console.print(judge_table(comparison.judges))
    if save:
        command = command_line(context)
        saved = [{**row, "command": command} for row in comparison.documents]
        console.print(f"Written to {merge_rows('believable', saved, ('method', 'seed'))}")


@app.command()
def ablation(
    context: typer.Context,
    *,
    dataset: Annotated[
        list[str] | None, typer.Option(help="repeatable; default: the data sets of decision 15")
    ] = None,
    variant: Annotated[
        list[str] | None, typer.Option(help="repeatable; default: all variants")
    ] = None,
    budget: Annotated[float, typer.Option(help="training seconds per denoiser")] = 120,
    count: Annotated[int, typer.Option(min=1, help="validation instances to explain")] = 60,
    believability: Annotated[
        bool, typer.Option("--believability", help="measure NA and C2ST; takes minutes")
    ] = False,
    table: Annotated[
        bool, typer.Option("--table", help="only print the saved rows as Markdown")
    ] = False,
    seed: Seed = 0,
    save: Annotated[bool, typer.Option("--keep", help="save the rows for `--table`")] = False,
) -> None:
    """Compare our method with variants that lack one part, on validation instances."""
    if table:
        console.print(ablation_page(saved_ablation()), markup=False, soft_wrap=True)
        return
    names = select(variant, list(VARIANTS), "variant")
    for name in dataset or ABLATION_DATASETS:
        task = open_task(name, seed)
        target = open_target(task, seed)
        with show_progress() as on_progress:
            rows = measure_ablation(
                task,
                target,
                {name: VARIANTS[name] for name in names},
                budget=budget,
                count=count,
                seed=seed,
                with_believability=believability,
                on_progress=on_progress,
            )
        console.print(ablation_page(rows), markup=False, soft_wrap=True)
        if save:
            command = command_line(context)
            saved = [{**row, "command": command} for row in rows]
            console.print(f"Written to {merge_rows('ablation', saved, ABLATION_KEYS)}")
