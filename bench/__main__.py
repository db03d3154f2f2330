"""`python -m bench`: measurements that anyone can repeat; each prints a table and writes JSON."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bench.classes.comparison import DATASETS as CLASS_DATASETS
from bench.classes.comparison import class_rows
from bench.classes.figures import ClassRow
from bench.classes.methods import EXPLANATIONS
from bench.counterfactuals.comparison import compared
from bench.counterfactuals.dump import dump
from bench.counterfactuals.instances import chosen
from bench.counterfactuals.methods import METHODS
from bench.counterfactuals.runs import Run
from bench.data.splits import DataError
from bench.data.tasks import TASKS, Task, load
from bench.gnns.recipes import SECONDS
from bench.gnns.target_gnns import TargetGnn, target_gnn
from bench.gnns.training import shown_progress
from bench.report.plots import draw
from bench.report.provenance import provenance
from bench.report.report import PAGE, write_report
from bench.report.results_store import document, keep
from bench.report.tables import (
    class_tables,
    counterfactual_tables,
    gnn_table,
    robustness_table,
    speed_table,
)
from bench.robustness.comparison import DATASETS, NOISE_SEEDS, RobustnessRun, robustness_rows
from bench.robustness.edit_rankings import RANKINGS
from bench.speed.api.load import CLIENTS, measure_load
from bench.speed.api.load import SECONDS as LOAD_SECONDS
from bench.speed.parts import PARTS
from bench.speed.section import Figures, Section, listed
from bench.speed.section import row as speed_row

app = typer.Typer(add_completion=False, help=__doc__, no_args_is_help=True)
console = Console(width=None if sys.stdout.isatty() else 130)

Seed = Annotated[int, typer.Option(help="of splits, weights, instances and samples")]
Json = Annotated[
    Path | None, typer.Option("--json", help="file for the rows; a plot of them goes beside it")
]
Keep = Annotated[bool, typer.Option("--keep", help="the report is to show the rows")]


@app.callback()
def main() -> None:
    """Measurements that anyone can repeat."""
    torch.set_num_threads(1)


@app.command()
def gnns(
    context: typer.Context,
    *,
    dataset: Annotated[
        list[str] | None, typer.Option(help="a name or path; may be repeated; default: all names")
    ] = None,
    seconds: Annotated[float, typer.Option(help="train each no longer than this")] = SECONDS,
    seed: Seed = 0,
    out: Json = None,
    kept: Keep = False,
) -> None:
    """Trains the GNNs that are explained and keeps them; test accuracy beside the paper's."""
    rows = []
    for name in dataset or TASKS:
        task = _task(name, seed)
        target = _target(task, seed, seconds)
        figures = asdict(target.metrics)
        origin = figures.pop("provenance")
        rows.append({"dataset": task.name, **figures, "cached": target.cached, **origin})
    console.print(gnn_table(rows))
    _write(context, rows, out, kept)


@app.command()
def counterfactual(
    context: typer.Context,
    *,
    dataset: Annotated[
        str, typer.Option(help="a name, a TU folder or zip, or a SMILES csv")
    ] = "ba3motif",
    budget: Annotated[float, typer.Option(help="seconds of training per denoiser")] = 60,
    test: Annotated[int, typer.Option(min=1, help="held-out graphs or nodes to explain")] = 60,
    method: Annotated[
        list[str] | None, typer.Option(help="may be repeated; default: all methods")
    ] = None,
    seed: Seed = 0,
    out: Json = None,
    kept: Keep = False,
    dump_to: Annotated[
        Path | None, typer.Option("--dump", help="folder for GNN, instances and all edits")
    ] = None,
) -> None:
    """Ours, ours without each part, the paper's sampler and plain searches on the same GNN."""
    names = _methods(method, METHODS)
    task = _task(dataset, seed)
    target = _target(task, seed, SECONDS)
    with _steps() as show:
        found = compared(task, target, names, budget=budget, test=test, seed=seed, on_step=show)
    for table in counterfactual_tables(found.results):
        console.print(table)
    for remark in found.remarks:
        console.print(remark)
    _write(context, found.documents, out, kept)
    if dump_to is not None:
        dump(dump_to, target, found.instances, found.answers)
        console.print(f"GNN, instances and edits written to {dump_to}")


@app.command()
def classes(
    context: typer.Context,
    *,
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="a name or path; may be repeated; default: those of the paper"),
    ] = None,
    budget: Annotated[float, typer.Option(help="seconds of training per denoiser")] = 60,
    explanations: Annotated[int, typer.Option(min=1, help="per row")] = EXPLANATIONS,
    full: Annotated[bool, typer.Option("--full", help="with the paper's grid of K and T")] = False,
    seed: Seed = 0,
    out: Json = None,
    kept: Keep = False,
) -> None:
    """Ours, the paper's sampler, real subgraphs and hill climbing as explanations of classes."""
    rows: list[ClassRow] = []
    documents: list[dict[str, Any]] = []
    for name in dataset or CLASS_DATASETS:
        task = _task(name, seed)
        target = _target(task, seed, SECONDS)
        with _steps() as show:
            for row, document in class_rows(
                task,
                target,
                budget=budget,
                explanations=explanations,
                full=full,
                seed=seed,
                on_step=show,
            ):
                rows.append(row)
                documents.append(document)
    _write(context, documents, out, kept)
    for table in class_tables(rows):
        console.print(table)


@app.command()
def robustness(
    context: typer.Context,
    *,
    dataset: Annotated[
        list[str] | None,
        typer.Option(help="a name or path; may be repeated; default: those of the paper"),
    ] = None,
    budget: Annotated[float, typer.Option(help="seconds of training of the denoiser")] = 60,
    test: Annotated[int, typer.Option(min=1, help="held-out graphs to explain")] = 20,
    method: Annotated[
        list[str] | None, typer.Option(help="may be repeated; default: all methods")
    ] = None,
    seed: Seed = 0,
    out: Json = None,
    kept: Keep = False,
) -> None:
    """Top-K accuracy: how much of an explanation stays when the graph is noisy."""
    names = _methods(method, RANKINGS)
    documents: list[dict[str, Any]] = []
    for name in dataset or DATASETS:
        task = _task(name, seed)
        target = _target(task, seed, SECONDS)
        rows = []
        with _steps() as show:
            instances = chosen(task, test, seed)
            run = Run(target, task.train.graphs, instances, budget=budget, seed=seed, on_step=show)
            comparison = RobustnessRun(run)
            for one in names:
                graphs, origin = comparison.compared(one, show)
                fresh = robustness_rows(task.name, one, graphs, NOISE_SEEDS)
                rows += fresh
                documents += [{**asdict(row), **origin, "budget": budget} for row in fresh]
        console.print(robustness_table(rows))
    _write(context, documents, out, kept)


@app.command()
def speed(
    context: typer.Context,
    *,
    part: Annotated[list[str] | None, typer.Option(help="may be repeated; default: all")] = None,
    short: Annotated[bool, typer.Option("--short", help="fewer repetitions, in minutes")] = False,
    seed: Seed = 0,
    out: Json = None,
    kept: Keep = False,
) -> None:
    """How fast training, explaining and the API are: ratios within one run."""
    origin = {"short": short, **provenance(seed)}
    sections: dict[str, Section[Figures]] = {}
    failed: list[str] = []
    for name in _methods(part, list(PARTS), "part"):
        try:
            with _steps() as show:
                section = PARTS[name](short, seed, show)
        except Exception:  # hours of the other parts are not to be lost by it
            console.print_exception()
            failed.append(name)
            continue
        sections[name] = section
        _show(name, section)
        _write(context, [{**speed_row("speed", sections.values()), **origin}], out, kept=False)
        _write(context, [{**speed_row(name, [section]), **origin}], None, kept)
    if failed:
        console.print(f"[red]not measured: {', '.join(failed)}[/]")
        raise typer.Exit(1)


@app.command("load")
def submissions(
    context: typer.Context,
    *,
    clients: Annotated[int, typer.Option(min=1, help="that submit at the same time")] = CLIENTS,
    seconds: Annotated[float, typer.Option(min=1, help="of counted submissions")] = LOAD_SECONDS,
    rate: Annotated[
        float | None,
        typer.Option(
            min=1, help="submissions that are due each second; default: one after the other"
        ),
    ] = None,
    seed: Seed = 0,
    out: Json = None,
    kept: Keep = False,
) -> None:
    """Submit latency and throughput of the API: the part `load` of `speed`, with its settings."""
    with _steps() as show:
        section = measure_load(clients, seconds, seed, show, rate)
    _show("load", section)
    rows = [{**speed_row("load", [section]), **provenance(seed)}]
    _write(context, rows, out, kept, "speed")


@app.command()
def report() -> None:
    """Writes docs/benchmarks.md and its plots from the kept results; run it where the docs are."""
    results = write_report()
    count = sum(map(len, results.of.values()))
    console.print(f"{PAGE} written from {count} kept rows")


def _show(name: str, section: Section[Figures]) -> None:
    for table in (listed(name, section), *section.tables):
        console.print(speed_table(table))


def _methods(asked: list[str] | None, known: Sequence[str], what: str = "method") -> list[str]:
    unknown = sorted(set(asked or ()).difference(known))
    if unknown:
        console.print(f"[red]no {what} {', '.join(unknown)}; there are {', '.join(known)}[/]")
        raise typer.Exit(2)
    return [name for name in known if not asked or name in asked]


def _task(name: str, seed: int) -> Task:
    try:
        return load(name, seed)
    except DataError as error:
        console.print(f"[red]{error}[/]")
        raise typer.Exit(2) from None


def _target(task: Task, seed: int, seconds: float) -> TargetGnn:
    with shown_progress(console) as show:
        target = target_gnn(task, seed, show, seconds=seconds)
    console.print(
        f"{task.name}: GNN test accuracy {target.metrics.test_accuracy:.3f}, "
        + ("kept in" if target.cached else "now kept in")
        + f" {target.folder}"
    )
    return target


@contextmanager
def _steps() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal; elsewhere a line per quarter of the way."""
    if not console.is_terminal:

        def line(what: str, done: int, count: int) -> None:
            if done % max(count // 4, 1) == 0 or done == count:
                console.log(f"{what}: {done} of {count}")

        yield line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as bar:
        started: dict[str, Any] = {}

        def step(what: str, done: int, count: int) -> None:
            if what not in started:
                started[what] = bar.add_task(what, total=count)
            bar.update(started[what], completed=done)

        yield step


def _write(
    context: typer.Context,
    rows: list[dict[str, Any]],
    out: Path | None,
    kept: bool,
    name: str | None = None,
) -> None:
    """The rows with the command that made them, where they were asked for."""
    name = name or str(context.info_name)
    said = [{**row, "command": _command(context)} for row in rows]
    files: list[Path] = []
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(document(said))
        files.append(out)
        plot = out.with_suffix(".png")
        if draw(name, said, plot):
            files.append(plot)
    if kept:
        files += keep(name, said)
    if files:
        console.print(f"written to {', '.join(map(str, files))}")


def _command(context: typer.Context) -> str:
    """As it is typed to get the same rows; where they are written does not matter."""
    words = ["python", "-m", "bench", str(context.info_name)]
    for parameter in context.command.params:
        value = context.params.get(str(parameter.name))
        if value is True and parameter.name != "kept":
            words.append(parameter.opts[0])
        if value is None or isinstance(value, bool | Path):
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [parameter.opts[0], f"{one:g}" if isinstance(one, float) else str(one)]
    return shlex.join(words)


if __name__ == "__main__":
    app()
