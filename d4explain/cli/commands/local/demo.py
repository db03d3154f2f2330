from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from d4explain.cli.options import Json
from d4explain.cli.output.terminal import messages, output, print_json
from d4explain.demo import TARGET_FLIP_RATE, Demo, DemoOptions
from d4explain.errors import CommandError
from d4explain.stack.source_tree import use_source_tree


def demo(
    out: Annotated[Path, typer.Option(help="Folder for results and drawings.")] = Path(
        "demo-results"
    ),
    graphs: Annotated[int, typer.Option(min=1, help="Number of held-out graphs to explain.")] = 12,
    keep: Annotated[
        bool, typer.Option("--keep", help="Reuse the denoisers of the last demo if they fit.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a small GNN and its denoisers, then explain graphs and classes, all over HTTP."""
    use_source_tree()
    from store.settings import Settings  # noqa: PLC0415 - only from the source tree

    # Like Ctrl-C: exit through the context managers, which stop the stack.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    data_dir = Settings.from_environment().data_dir / "demo"
    console = messages() if as_json else output()
    verification = Demo(DemoOptions(out, data_dir, graphs, keep), console).run()
    if as_json:
        figures = {"flip_rate": verification.flip_rate, "passed": verification.passed, "out": out}
        print_json({**vars(verification), **figures})
    if verification.contradicted:
        raise CommandError(
            f"over HTTP, the GNN contradicts {verification.contradicted} counterfactuals"
        )
    if not verification.passed:
        raise CommandError(
            f"only {verification.flip_rate:.0%} of the graphs flipped; "
            f"the target is {TARGET_FLIP_RATE:.0%}"
        )
