from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from d4explain.cli.terminal import output
from d4explain.demo import Demo, DemoOptions
from d4explain.errors import CommandError
from store.settings import Settings


def demo(
    out: Annotated[Path, typer.Option(help="Folder for results and drawings.")] = Path(
        "demo-results"
    ),
    graphs: Annotated[int, typer.Option(min=1, help="Held-out graphs to explain.")] = 24,
    keep: Annotated[
        bool, typer.Option("--keep", help="Use what the demo before trained, if it fits.")
    ] = False,
) -> None:
    """Make a GNN, train its denoiser, explain graphs and classes: all over HTTP."""
    # As Ctrl-C does: the stack is stopped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    data_dir = Settings.from_environment().data_dir / "demo"
    verdict = Demo(DemoOptions(out, data_dir, graphs, keep), output()).run()
    if verdict.contradicted:
        raise CommandError(f"the GNN contradicts {verdict.contradicted} counterfactuals over HTTP")
    if not verdict.passed:
        raise CommandError(f"only {verdict.flip_rate:.0%} of the graphs flipped; 80 % are wanted")
