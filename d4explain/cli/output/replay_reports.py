"""Prints what a replay found."""

from __future__ import annotations

from d4explain.cli.output.terminal import print_line
from d4explain.contracts.receipts.replay_reports import ReplayOutcome, ReplayReport


def print_report(report: ReplayReport) -> None:
    match report.outcome:
        case ReplayOutcome.MATCH:
            print_line(f"match: {report.compared_values:,} values are the same")
        case ReplayOutcome.NOT_COMPARABLE:
            print_line(f"not comparable: {report.reason}")
        case ReplayOutcome.DIFFERS:
            print_line(f"differs: {report.difference_count:,} of {report.compared_values:,} values")
            for place in report.differences:
                print_line(f"  {place.pointer}: {place.recorded!r} became {place.repeated!r}")
    for package, (was, is_now) in report.changed_versions.items():
        print_line(f"{package} was {was} and is {is_now}")
