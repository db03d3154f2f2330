"""Commands that measure speed."""

from __future__ import annotations

from typing import Annotated

import typer

from bench.commands.options import Json, Save, Seed, select
from bench.console import console, show_progress, write_rows
from bench.report.provenance import provenance
from bench.report.tables import (
    speed_table,
)
from bench.speed.api.load import CLIENTS, measure_load
from bench.speed.api.load import SECONDS as LOAD_SECONDS
from bench.speed.benchmarks import SPEED_BENCHMARKS
from bench.speed.section import Figures, Section, figures_table, result_row

app = typer.Typer()


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
    for name in select(part, list(SPEED_BENCHMARKS), "part"):
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


def _print_section(name: str, section: Section[Figures]) -> None:
    for table in (figures_table(name, section), *section.tables):
        console.print(speed_table(table))
