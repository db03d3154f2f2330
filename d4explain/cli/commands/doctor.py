from __future__ import annotations

import typer
from rich.table import Table

from d4explain.cli.commands.options import Url
from d4explain.cli.doctor_checks import Finding, examine
from d4explain.cli.terminal import output

SIGNS = {Finding.GOOD: "[green]✓", Finding.NOTE: "[yellow]-", Finding.BAD: "[red]✗"}


def doctor(url: Url = None) -> None:
    """Check what the stack needs and whether it runs."""
    table = Table("", "what", "found", box=None, pad_edge=False)
    checks = examine(url)
    for check in checks:
        table.add_row(SIGNS[check.finding], check.what, check.detail)
    output().print(table)
    if any(check.finding is Finding.BAD for check in checks):
        raise typer.Exit(1)
