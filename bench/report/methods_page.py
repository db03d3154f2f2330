"""docs/benchmark-methods.md: how each figure is measured, and the runs behind the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.report.markdown import table
from bench.report.results_page import TITLES, size_table
from bench.report.results_store import COMMANDS, Results, Row

NOTES = Path(__file__).resolve().parent / "notes"
_RUN_COLUMNS = {"dataset": "data set", "command": "command", "commit": "commit", "date": "date"}


def methods_page(results: Results) -> str:
    sections = ["# How the benchmarks are measured\n\n", read_note("methods")]
    for command in COMMANDS:
        sections += [f"\n## {TITLES[command]}\n\n", read_note(command)]
        rows = results.rows(command)
        if rows and command == "paper_sizes":
            sections.append(size_table(results))
        if rows:
            sections += ["\n### Runs\n", runs_table(rows), _environments(rows)]
    return "".join(sections)


def read_note(name: str) -> str:
    """The text of a note; empty if there is none."""
    file = NOTES / f"{name}.md"
    return file.read_text() if file.is_file() else ""


def runs_table(rows: Sequence[Row]) -> str:
    """The command, commit and date of every run, without repetition."""
    runs = [
        {
            "dataset": row["dataset"],
            "command": f"`{row['command']}`" if row.get("command") else None,
            "commit": f"`{_short(row['commit'])}`" if row.get("commit") else None,
            "date": row.get("date"),
        }
        for row in rows
    ]
    distinct = [run for index, run in enumerate(runs) if run not in runs[:index]]
    return table(distinct, _RUN_COLUMNS)


def _environments(rows: Sequence[Row]) -> str:
    """Machines and package versions, each once."""
    lines = dict.fromkeys(
        "; ".join([row["machine"], *_versions(row.get("versions", {}))])
        for row in rows
        if row.get("machine")
    )
    return "".join(f"\n{line}.\n" for line in lines)


def _versions(versions: Mapping[str, str]) -> list[str]:
    return [f"{package} {number}" for package, number in versions.items()]


def _short(commit: str) -> str:
    head, dash, dirty = commit.partition("-")
    return head[:7] + dash + dirty
