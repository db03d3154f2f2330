from __future__ import annotations

import typer
from rich.table import Table

from d4explain.cli.commands.options import Url
from d4explain.cli.doctor_checks import Status, run_checks
from d4explain.cli.terminal import output

SYMBOLS = {Status.OK: "[green]✓", Status.NOTE: "[yellow]-", Status.FAILED: "[red]✗"}


def doctor(url: Url = None) -> None:
    """Check that this machine can run the stack, and whether the API answers."""
    table = Table("", "check", "result", box=None, pad_edge=False)
    checks = run_checks(url)
    for check in checks:
        table.add_row(SYMBOLS[check.status], check.name, check.detail)
    output().print(table)
    if any(check.status is Status.FAILED for check in checks):
        raise typer.Exit(1)
