from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from d4explain.cli.exit_codes import ExitCode
from d4explain.cli.input.files import read_text
from d4explain.cli.options import Json, Timeout, Url
from d4explain.cli.output.progress_bars import JobProgressBars
from d4explain.cli.output.terminal import messages, print_json, print_line
from d4explain.client.client import Client
from d4explain.contracts.evaluations.gate import (
    Check,
    Gate,
    check_comparison,
    check_thresholds,
    parse_gate,
)
from d4explain.errors import CommandError


def gate(
    file: Annotated[Path, typer.Argument(metavar="GATE.TOML", help="The thresholds.")],
    *,
    evaluation: Annotated[
        str | None, typer.Option(help="evl_…, instead of the id in the file.")
    ] = None,
    comparison: Annotated[
        str | None, typer.Option(help="cmp_…, instead of the id in the file.")
    ] = None,
    timeout: Timeout = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Check thresholds on an evaluation or comparison; exit code 8 if one is crossed."""
    parsed = parse_gate(read_text(file))
    evaluation = evaluation or parsed.evaluation.id
    comparison = comparison or (parsed.comparison.id if parsed.comparison else None)
    checks = _checks(parsed, evaluation, comparison, timeout, url)
    crossed = [check for check in checks if not check.passed]
    if as_json:
        print_json({"passed": not crossed, "checks": checks})
    else:
        for check in checks:
            print_line(f"{'passed' if check.passed else 'FAILED'}  {check.text}")
        print_line(f"the gate {'failed' if crossed else 'passed'}: {len(crossed)} crossed")
    if crossed:
        raise typer.Exit(ExitCode.GATE)


def _checks(
    parsed: Gate,
    evaluation: str | None,
    comparison: str | None,
    timeout: float | None,
    url: str | None,
) -> list[Check]:
    checks: list[Check] = []
    if parsed.threshold and evaluation is None:
        raise CommandError("the gate has thresholds; give --evaluation, or its id in the file")
    if parsed.comparison and comparison is None:
        raise CommandError("the gate has [comparison]; give --comparison, or its id in the file")
    with Client(url) as client, JobProgressBars(messages()) as bars:
        if parsed.threshold and evaluation is not None:
            found = client.wait_for_evaluation(evaluation, on_progress=bars, timeout=timeout)
            assert found.result is not None  # it succeeded
            checks += check_thresholds(parsed.threshold, found.result)
        if parsed.comparison and comparison is not None:
            job = client.comparison(comparison).job
            client.wait(job.id, on_progress=bars, timeout=timeout)
            compared = client.comparison(comparison)
            assert compared.result is not None  # it succeeded
            checks += check_comparison(parsed.comparison, compared.result)
    return checks
