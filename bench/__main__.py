"""`python -m bench`: reproducible measurements; each prints a table and can write JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, cast

import torch
import typer

from bench.ablation.comparison import DATASETS as ABLATION_DATASETS
from bench.ablation.comparison import KEYS as ABLATION_KEYS
from bench.ablation.comparison import VARIANTS, measure_ablation
from bench.ablation.tables import ablation_page, saved_ablation
from bench.classes.comparison import CLASS_KEYS, class_rows
from bench.classes.comparison import DATASETS as CLASS_DATASETS
from bench.classes.figures import ClassRow
from bench.classes.methods import ALONE
from bench.classes.methods import OURS as OUR_CLASSES
from bench.classes.methods import PAPER as PAPER_CLASSES
from bench.console import command_line, console, show_progress, write_rows
from bench.counterfactuals.comparison import compare_methods
from bench.counterfactuals.dump import dump
from bench.counterfactuals.instances import InstancePart, select_instances
from bench.counterfactuals.methods import BELIEVABILITY, METHODS, SEARCHES
from bench.counterfactuals.paired import compare_dumps
from bench.counterfactuals.runs import CounterfactualRun
from bench.data.splits import DataError
from bench.data.tasks import TASKS, Task, load_task
from bench.explainers.rows import COMMAND as TABLES_COMMAND
from bench.explainers.rows import DATASETS as TABLE_DATASETS
from bench.explainers.rows import KEYS as TABLE_KEYS
from bench.explainers.rows import METHODS as TABLE_METHODS
from bench.explainers.rows import missing_rows
from bench.explainers.sanity import DATASETS as SANITY_DATASETS
from bench.explainers.sanity import KEYS as SANITY_KEYS
from bench.explainers.sanity import sanity_row
from bench.explainers.tables import run_time, table_1, table_2, verdicts
from bench.global_counterfactuals.comparison import SOURCE_CLASSES, measure_global
from bench.gnns.recipes import SECONDS
from bench.gnns.target_gnns import TargetGnn, load_target_gnn
from bench.gnns.training import show_epochs
from bench.paper.long_run import CONFIGS, LongRun, measure_point
from bench.paper.sizes import PREFIX as SIZES_PREFIX
from bench.paper.sizes import chosen_size, measure_sizes, recipe_of
from bench.report.class_tables import class_table_by_size
from bench.report.provenance import provenance
from bench.report.report import RESULTS_PAGE, write_report
from bench.report.results_store import Row, append_rows, merge_rows, read_results
from bench.report.tables import (
    believability_table,
    class_tables,
    counterfactual_tables,
    global_table,
    gnn_table,
    judge_table,
    paired_table,
    paper_table,
    robustness_table,
    speed_table,
    typicality_table,
)
from bench.robustness.comparison import DATASETS, NOISE_SEEDS, RobustnessRun, robustness_rows
from bench.robustness.edit_rankings import RANKINGS
from bench.speed.api.load import CLIENTS, measure_load
from bench.speed.api.load import SECONDS as LOAD_SECONDS
from bench.speed.benchmarks import SPEED_BENCHMARKS
from bench.speed.section import Figures, Section, figures_table, result_row
from bench.typicality.comparison import DATASETS as TYPICALITY_DATASETS
from bench.typicality.comparison import measure_typicality
from models.diffusion.paper.recipe import PRINTED_SIZES
from models.explainers.catalogue import EXPLAINERS, ExplainerName
from models.global_counterfactuals.config import GlobalConfig

TableSets = Annotated[
    list[str] | None, typer.Option("--dataset", help="repeatable; default: the paper's eight")
]
TableMethods = Annotated[
    list[str] | None, typer.Option("--method", help="repeatable; default: all rows")
]
TableBudget = Annotated[float, typer.Option(help="training seconds of the denoiser")]
TableTest = Annotated[int, typer.Option(min=1, help="held-out graphs or nodes to explain")]
TableSeeds = Annotated[
    list[int] | None, typer.Option("--seed", help="repeatable; default: 0, 1 and 2")
]

app = typer.Typer(add_completion=False, help=__doc__, no_args_is_help=True)

Seed = Annotated[int, typer.Option(help="seed of splits, weights, instances and samples")]
Json = Annotated[
    Path | None, typer.Option("--json", help="write the rows to this file and a plot beside it")
]
Save = Annotated[bool, typer.Option("--keep", help="save the rows for the report")]


@app.callback()
def main() -> None:
    """Reproducible measurements."""
    torch.set_num_threads(1)


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
        task = _task(name, seed)
        target = _target(task, seed, seconds)
        figures = asdict(target.metrics)
        origin = figures.pop("provenance")
        rows.append({"dataset": task.name, **figures, "cached": target.cached, **origin})
    console.print(gnn_table(rows))
    write_rows(context, rows, json_file, save)


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
    names = _select(method, METHODS) if method else list(SEARCHES)
    task = _task(dataset, seed)
    target = _target(task, seed, SECONDS)
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
    names = _select(method, METHODS) if method else list(BELIEVABILITY)
    task = _task(dataset, seed)
    target = _target(task, seed, SECONDS)
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
    names = _select(variant, list(VARIANTS), "variant")
    for name in dataset or ABLATION_DATASETS:
        task = _task(name, seed)
        target = _target(task, seed, SECONDS)
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
        task = _task(name, seed)
        target = _target(task, seed, SECONDS)
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
    names = _select(method, RANKINGS)
    documents: list[dict[str, Any]] = []
    for name in dataset or DATASETS:
        task = _task(name, seed)
        target = _target(task, seed, SECONDS)
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
def table1(
    context: typer.Context,
    *,
    dataset: TableSets = None,
    method: TableMethods = None,
    budget: TableBudget = 60,
    test: TableTest = 60,
    seed: TableSeeds = None,
) -> None:
    """The paper's Table 1: CF-ACC and fidelity AUC of all explainers. Saves each row; resumes."""
    rows = _paper_rows(context, dataset, method, budget=budget, test=test, seeds=seed)
    _print_markdown(table_1(rows), *verdicts(rows))


@app.command()
def table2(
    context: typer.Context,
    *,
    dataset: TableSets = None,
    method: TableMethods = None,
    budget: TableBudget = 60,
    test: TableTest = 60,
    seed: TableSeeds = None,
) -> None:
    """The paper's Table 2: MMD, with transfer, C2ST and CPU time. The rows are those of Table 1."""
    rows = _paper_rows(context, dataset, method, budget=budget, test=test, seeds=seed)
    _print_markdown(table_2(rows), *verdicts(rows))


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
    budget: TableBudget = 60,
    seed: Seed = 0,
) -> None:
    """The paper's table of class explanations by size, with XGNN. Saves each row of `classes`."""
    names = _select(method, [one.name for one in (PAPER_CLASSES, *OUR_CLASSES, *ALONE)])
    for name in dataset or CLASS_DATASETS[:4]:
        task = _task(name, seed)
        target = _target(task, seed, SECONDS)
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
    _print_markdown(*class_table_by_size(read_results()))


@app.command()
def runtime(
    context: typer.Context,
    *,
    dataset: TableSets = None,
    method: TableMethods = None,
    budget: TableBudget = 60,
    test: TableTest = 60,
    seed: TableSeeds = None,
) -> None:
    """The paper's run times: CPU seconds per instance. The rows are those of Table 1."""
    _print_markdown(
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
        task = _task(name, seed)
        target = _target(task, seed, SECONDS)
        for explainer in _select(method, list(EXPLAINERS)):
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
    for name in _select(dataset, list(PRINTED_SIZES), "data set"):
        task = _task(name, seed)
        target = _target(task, seed, SECONDS)
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
    task = _task(dataset, seed)
    try:
        size = chosen_size(task.name)
    except DataError as error:
        console.print(f"[red]{error}[/]")
        raise typer.Exit(2) from None
    run = LongRun(task, _target(task, seed, SECONDS), recipe_of(size), seed)
    with show_progress() as on_progress:
        piece = run.train(minutes, on_progress)
        rows = measure_point(run, piece, CONFIGS, test=test, on_progress=on_progress)
    console.print(paper_table(rows))
    if save:
        command = f"python -m bench paper --dataset {task.name} --test {test} --seed {seed}"
        console.print(
            f"Written to {append_rows('paper', [{**row, 'command': command} for row in rows])}"
        )


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
        task = _task(name, seed)
        target = _target(task, seed, SECONDS)
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
    for name in _select(dataset, list(SOURCE_CLASSES), "data set"):
        config = GlobalConfig(SOURCE_CLASSES[name], count=count, radius=radius, seeds=starts)
        with show_progress() as on_progress:
            try:
                row = measure_global(_task(name, seed), config, seed=seed, on_progress=on_progress)
            except DataError as error:
                console.print(f"[red]{error}[/]")
                raise typer.Exit(2) from None
        rows.append(row)
    console.print(global_table(rows))
    write_rows(context, rows, json_file, save)


@app.command()
def speed(
    context: typer.Context,
    *,
    part: Annotated[list[str] | None, typer.Option(help="repeatable; default: all")] = None,
    short: Annotated[
        bool, typer.Option("--short", help="fewer repetitions; takes minutes")
    ] = False,
    seed: Seed = 0,
    json_file: Json = None,
    save: Save = False,
) -> None:
    """Measure the speed of training, explaining and the API, mostly as ratios within one run."""
    origin = {"short": short, **provenance(seed)}
    sections: dict[str, Section[Figures]] = {}
    failed: list[str] = []
    for name in _select(part, list(SPEED_BENCHMARKS), "part"):
        try:
            with show_progress() as on_progress:
                section = SPEED_BENCHMARKS[name](short, seed, on_progress)
        except Exception:  # keep the results of the other benchmarks, which take hours
            console.print_exception()
            failed.append(name)
            continue
        sections[name] = section
        _print_section(name, section)
        combined = {**result_row("speed", sections.values()), **origin}
        write_rows(context, [combined], json_file, save=False)
        write_rows(context, [{**result_row(name, [section]), **origin}], None, save)
    if failed:
        console.print(f"[red]Not measured: {', '.join(failed)}[/]")
        raise typer.Exit(1)


@app.command("load")
def submissions(
    context: typer.Context,
    *,
    clients: Annotated[int, typer.Option(min=1, help="concurrent clients")] = CLIENTS,
    seconds: Annotated[
        float, typer.Option(min=1, help="duration of the measurement")
    ] = LOAD_SECONDS,
    rate: Annotated[
        float | None,
        typer.Option(
            min=1, help="submissions per second; default: each client submits after its last answer"
        ),
    ] = None,
    seed: Seed = 0,
    json_file: Json = None,
    save: Save = False,
) -> None:
    """Measure submission latency and throughput of the API (`speed --part load` with options)."""
    with show_progress() as on_progress:
        section = measure_load(clients, seconds, seed, on_progress, rate)
    _print_section("load", section)
    rows = [{**result_row("load", [section]), **provenance(seed)}]
    write_rows(context, rows, json_file, save, "speed")


@app.command()
def report() -> None:
    """Write docs/benchmarks.md, docs/benchmark-methods.md and the plots from the saved results."""
    results = write_report()
    count = sum(map(len, results.by_command.values()))
    console.print(f"Written {RESULTS_PAGE} from {count} saved rows")


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
    wanted = _select(methods, TABLE_METHODS)
    rows: list[Row] = []
    for name in datasets or TABLE_DATASETS:
        for seed in seeds or (0, 1, 2):
            task = _task(name, seed)
            target = _target(task, seed, SECONDS)
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


def _print_markdown(*parts: str) -> None:
    for part in parts:
        console.print(part, markup=False, soft_wrap=True)


def _print_section(name: str, section: Section[Figures]) -> None:
    for table in (figures_table(name, section), *section.tables):
        console.print(speed_table(table))


def _select(names: list[str] | None, known: Sequence[str], kind: str = "method") -> list[str]:
    """The known names that were given, in their usual order, or all; exits on an unknown name."""
    unknown = sorted(set(names or ()).difference(known))
    if unknown:
        expected = ", ".join(known)
        console.print(f"[red]Unknown {kind} {', '.join(unknown)}; expected {expected}.[/]")
        raise typer.Exit(2)
    return [name for name in known if not names or name in names]


def _task(name: str, seed: int) -> Task:
    try:
        return load_task(name, seed)
    except DataError as error:
        console.print(f"[red]{error}[/]")
        raise typer.Exit(2) from None


def _target(task: Task, seed: int, seconds: float) -> TargetGnn:
    with show_epochs(console) as show:
        target = load_target_gnn(task, seed, show, seconds=seconds)
    console.print(
        f"{task.name}: GNN test accuracy {target.metrics.test_accuracy:.3f}, "
        + ("cached in" if target.cached else "saved to")
        + f" {target.folder}"
    )
    return target


if __name__ == "__main__":
    app()
