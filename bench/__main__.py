"""`python -m bench`: reproducible measurements; each prints a table and can write JSON."""

from __future__ import annotations

import torch
import typer

from bench.commands import classes, counterfactuals, explainers, gnns, paper, quality, speed
from bench.console import console
from bench.report.report import RESULTS_PAGE, write_report

app = typer.Typer(add_completion=False, help=__doc__, no_args_is_help=True)
for group in (gnns, counterfactuals, classes, explainers, paper, quality, speed):
    app.add_typer(group.app)


@app.callback()
def main() -> None:
    """Reproducible measurements."""
    torch.set_num_threads(1)


@app.command()
def report() -> None:
    """Write docs/benchmarks.md, docs/benchmark-methods.md and the plots from the saved results."""
    results = write_report()
    count = sum(map(len, results.by_command.values()))
    console.print(f"Written {RESULTS_PAGE} from {count} saved rows")


if __name__ == "__main__":
    app()
