"""`python -m bench`: measurements that anyone can repeat; each prints a table and writes JSON."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table

from bench.counterfactual import (
    ALTERNATIVES,
    Method,
    Row,
    answers,
    baselines,
    diffusion_method,
    row,
    trained,
)
from bench.example_gnn import Training, accuracy, shown_progress, train
from bench.parts import DataError
from bench.tasks import Task, load
from models.counterfactual import CounterfactualConfig
from models.gnn.network import Gnn
from models.synthetic import LabelledGraphs

app = typer.Typer(add_completion=False, help=__doc__, no_args_is_help=True)
console = Console(width=None if sys.stdout.isatty() else 130)


@app.callback()
def main() -> None:
    """Measurements that anyone can repeat."""
    torch.set_num_threads(1)


@app.command()
def counterfactual(
    dataset: Annotated[str, typer.Option(help="a benchmark's name or a TU zip")] = "ba3motif",
    budget: Annotated[float, typer.Option(help="seconds of denoiser training")] = 60,
    test: Annotated[int, typer.Option(help="held-out graphs to explain")] = 60,
    seed: Annotated[int, typer.Option()] = 0,
    out: Annotated[Path | None, typer.Option("--json", help="file for the rows")] = None,
) -> None:
    """Ours, the paper's sampler and plain searches on the same GNN and the same graphs."""
    try:
        task = load(dataset, seed)
    except DataError as error:
        console.print(f"[red]{error}[/]")
        raise typer.Exit(2) from None
    gnn = _target_gnn(task, seed)
    order = torch.randperm(
        len(task.test.graphs), generator=torch.Generator().manual_seed(seed)
    ).tolist()
    instances = [task.test.graphs[position] for position in order[:test]]
    rows = []
    for name, method, seconds in _methods(task, gnn, budget, seed):
        found = []
        with console.status(f"{name}: explaining {len(instances)} graphs"):
            for position, answer in enumerate(answers(method, instances, seed)):
                found.append(answer)
                if position % 10 == 9:
                    console.log(f"{name}: {position + 1} of {len(instances)}")
        rows.append(
            row(
                task.name,
                name,
                gnn,
                found=found,
                held_out=task.validation.graphs,
                train_seconds=seconds,
            )
        )
    _show(rows)
    if out is not None:
        document = {"rows": [asdict(one) for one in rows], "run": _provenance(seed, budget)}
        out.write_text(json.dumps(document, indent=2) + "\n")
        console.print(f"written to {out}")


def _methods(task: Task, gnn: Gnn, budget: float, seed: int) -> list[tuple[str, Method, float]]:
    with console.status(f"training both denoisers, {budget:.0f} s each"):
        ours, ours_seconds = trained(task.train.graphs, gnn, "default", budget, seed)
        papers, papers_seconds = trained(task.train.graphs, gnn, "paper", budget, seed)
    config = CounterfactualConfig(alternatives=ALTERNATIVES)
    paper_config = CounterfactualConfig(alternatives=ALTERNATIVES, sampler="paper")
    return [
        ("d4", diffusion_method(gnn, ours, config), ours_seconds),
        ("d4_paper", diffusion_method(gnn, papers, paper_config), papers_seconds),
        *((name, method, 0.0) for name, method in baselines(gnn).items()),
    ]


def _target_gnn(task: Task, seed: int) -> Gnn:
    with shown_progress(console) as show:
        data = LabelledGraphs(task.train.graphs, task.train.labels)
        gnn = train(data, Training(epochs=15, seconds=120), seed, show)
    reached = accuracy(gnn, task.test.graphs, task.test.labels)
    console.print(f"{task.name}: GNN test accuracy {reached:.3f}")
    return gnn


def _show(rows: list[Row]) -> None:
    first = rows[0]
    table = Table(
        title=f"{first.dataset}, {first.n} held-out graphs; ceiling {first.ceiling:.3f}, "
        f"MMD floor {first.mmd_floor:.3f}"
    )
    columns = (
        ("method", "method"),
        ("auc_strict", "AUC strict"),
        ("auc_one_edit", "AUC one-edit"),
        ("fidelity_auc", "fidelity AUC"),
        ("flip_rate", "flips ≤ .3"),
        ("mean_edits", "edits"),
        ("mmd_heldout", "MMD held-out"),
        ("alternatives3", "≥ 3 answers"),
        ("gnn_evaluations", "GNN evals"),
        ("cpu_seconds", "CPU s"),
    )
    for _, title in columns:
        table.add_column(title, justify="left" if title == "method" else "right")
    for one in rows:
        values = asdict(one)
        table.add_row(*(_cell(values[key]) for key, _ in columns))
    console.print(table)


def _cell(value: str | float | None) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.3f}"


def _provenance(seed: int, budget: float) -> dict[str, Any]:
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return {
        "seed": seed,
        "budget_seconds": budget,
        "commit": commit or None,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, 1 torch thread",
        "date": time.strftime("%Y-%m-%d"),
    }


if __name__ == "__main__":
    app()
