from __future__ import annotations

import typer
from rich.markup import escape
from rich.table import Table

from d4explain.cli.doctor_checks import Status, run_checks
from d4explain.cli.exit_codes import ExitCode
from d4explain.cli.options import Json, Url
from d4explain.cli.output.terminal import output, print_json

SYMBOLS = {Status.OK: "[green]✓", Status.NOTE: "[yellow]-", Status.FAILED: "[red]✗"}


def doctor(as_json: Json = False, url: Url = None) -> None:
    """Check that this machine can run the stack, and whether the API answers."""
    checks = run_checks(url)
    if as_json:
        print_json(checks)
    else:
        table = Table("", "check", "result", box=None, pad_edge=False)
        for check in checks:
            table.add_row(SYMBOLS[check.status], check.name, escape(check.detail))
        output().print(table)
    if any(check.status is Status.FAILED for check in checks):
        raise typer.Exit(ExitCode.ERROR)
