from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from d4explain.cli.doctor_checks import Check, Status, deployment_checks, run_checks
from d4explain.cli.exit_codes import ExitCode
from d4explain.cli.options import Json, Url
from d4explain.cli.output.terminal import output, print_json

SYMBOLS = {Status.OK: "[green]✓", Status.NOTE: "[yellow]-", Status.FAILED: "[red]✗"}


def doctor(
    as_json: Json = False,
    url: Url = None,
    deployment: Annotated[
        bool,
        typer.Option(
            "--deployment", help="Check database, broker, artifacts and workers of D4_… settings."
        ),
    ] = False,
) -> None:
    """Check that this machine can run the stack, and whether the API answers."""
    checks = deployment_checks() if deployment else run_checks(url)
    if as_json:
        print_json(checks)
    else:
        _print(checks)
    if any(check.status is Status.FAILED for check in checks):
        raise typer.Exit(ExitCode.ERROR)


def _print(checks: list[Check]) -> None:
    table = Table("", "check", "result", box=None, pad_edge=False)
    for check in checks:
        advice = f"\n[dim]→ {escape(check.fix)}[/]" if check.fix else ""
        table.add_row(SYMBOLS[check.status], check.name, escape(check.detail) + advice)
    output().print(table)
