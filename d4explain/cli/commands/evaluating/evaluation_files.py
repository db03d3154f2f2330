"""Commands that save files of an evaluation: rows, report, figures and signed test result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from d4explain.cli.exit_codes import ExitCode
from d4explain.cli.input.files import read_text, write_file
from d4explain.cli.options import Json, Url
from d4explain.cli.output.terminal import print_json, print_line
from d4explain.client.client import Client
from d4explain.client.evaluations.operations import ReportFormat
from d4explain.contracts.evaluations.gate import parse_gate
from d4explain.contracts.receipts.envelopes import unverified
from d4explain.errors import CommandError

EvaluationId = Annotated[str, typer.Argument(metavar="EVALUATION", help="evl_…")]
# The first ending that fits counts.
REPORT_ENDINGS: dict[str, ReportFormat] = {
    ".cdx.json": "cyclonedx",
    ".html": "html",
    ".pdf": "pdf",
    ".json": "json",
    ".csv": "csv",
}


def save(
    evaluation: EvaluationId,
    file: Annotated[Path, typer.Argument(help="The ending .csv or .parquet decides the format.")],
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Save all rows as CSV or Parquet."""
    formats: dict[str, Literal["csv", "parquet"]] = {".csv": "csv", ".parquet": "parquet"}
    if file.suffix not in formats:
        raise CommandError(f"{file} should end in .csv or .parquet")
    with Client(url) as client:
        data = client.evaluation_file(evaluation, format=formats[file.suffix])
    write_file(file, data)
    print_json({"saved": str(file)}) if as_json else print_line(f"saved {file}")


def report(
    evaluation: EvaluationId,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="The ending decides: .html, .pdf, .json, .csv; .cdx.json is a model card.",
        ),
    ],
    *,
    purpose: Annotated[str | None, typer.Option(help="What the GNN is for.")] = None,
    comparison: Annotated[
        str | None, typer.Option(help="cmp_…, a comparison of this evaluation to include.")
    ] = None,
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Save the audit report of an evaluation."""
    ending = next((end for end in REPORT_ENDINGS if out.name.endswith(end)), None)
    if ending is None:
        raise CommandError(f"{out} should end in {', '.join(REPORT_ENDINGS)}")
    with Client(url) as client:
        data = client.evaluation_report(
            evaluation, REPORT_ENDINGS[ending], purpose=purpose, comparison=comparison
        )
    write_file(out, data)
    print_json({"saved": str(out)}) if as_json else print_line(f"saved {out}")


def result(
    evaluation: EvaluationId,
    file: Annotated[Path, typer.Argument(help="Where to save it.")],
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Save the figures of an evaluation byte for byte, for `verify`."""
    with Client(url) as client:
        data = client.evaluation_result(evaluation)
    write_file(file, data)
    print_json({"saved": str(file)}) if as_json else print_line(f"saved {file}")


def signed_result(
    evaluation: EvaluationId,
    gate: Annotated[Path, typer.Argument(metavar="GATE.TOML", help="The thresholds.")],
    file: Annotated[Path, typer.Argument(help="Where to save the signed envelope.")],
    as_json: Json = False,
    url: Url = None,
) -> None:
    """Save what a gate finds, signed; exit code 8 if a threshold is crossed."""
    thresholds = parse_gate(read_text(gate))
    with Client(url) as client:
        envelope = client.test_result(evaluation, thresholds)
    write_file(file, envelope)
    said = unverified(envelope)
    assert said is not None  # the service wrote it
    found = said["predicate"]["result"]
    if as_json:
        print_json({"saved": str(file), "result": found})
    else:
        print_line(f"{found}; saved {file}")
    if found == "FAILED":
        raise typer.Exit(ExitCode.GATE)
