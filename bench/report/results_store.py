"""Saved results, the input of the report: rows as JSON, one file per command and data set."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path("bench/results")
NOT_MEASURED = "not measured"  # a figure that older rows lack
COMMANDS = (
    "gnns",
    "counterfactual",
    "believable",
    "sanity",
    "explainers",
    "paper",
    "paper_sizes",
    "classes",
    "robustness",
    "typicality",
    "global",
    "speed",
)

VALIDATION_COMMAND = "ablation"  # its rows are of validation instances; the report omits them

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Results:
    """All saved rows."""

    by_command: Mapping[str, Sequence[Row]]

    def rows(self, command: str, dataset: str | None = None) -> Sequence[Row]:
        """The rows of a command, or of one of its data sets; empty if there are none."""
        rows = self.by_command.get(command, ())
        return rows if dataset is None else [row for row in rows if row["dataset"] == dataset]

    def datasets(self, command: str) -> list[str]:
        return list(dict.fromkeys(row["dataset"] for row in self.rows(command)))

    def row(self, command: str, **values: object) -> Row | None:
        """The first row with these values, or None."""
        return next((row for row in self.rows(command) if _matches(row, values)), None)


def _matches(row: Row, values: Mapping[str, object]) -> bool:
    return all(row.get(key) == value for key, value in values.items())


def save_rows(command: str, rows: Iterable[Row], folder: Path = RESULTS) -> list[Path]:
    """Write one file per data set, so that a new run replaces only what it measured."""
    by_dataset: dict[str, list[Row]] = {}
    for row in rows:
        by_dataset.setdefault(row["dataset"], []).append(row)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for dataset, dataset_rows in by_dataset.items():
        file = folder / f"{command}-{dataset}.json"
        file.write_text(rows_to_json(dataset_rows))
        files.append(file)
    return files


def append_rows(command: str, rows: Sequence[Row], folder: Path = RESULTS) -> Path:
    """Add rows of one data set to those that its file has, for a curve that grows."""
    file = folder / f"{command}-{rows[0]['dataset']}.json"
    before = json.loads(file.read_text()) if file.is_file() else []
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(rows_to_json([*before, *rows]))
    return file


def merge_rows(
    command: str, rows: Sequence[Row], keys: Sequence[str], folder: Path = RESULTS
) -> Path:
    """Add rows of one data set to its file; a new row replaces one with the same `keys`."""
    file = folder / f"{command}-{rows[0]['dataset']}.json"
    before = json.loads(file.read_text()) if file.is_file() else []
    by_key = {tuple(row[key] for key in keys): row for row in (*before, *rows)}
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(rows_to_json(list(by_key.values())))
    return file


def read_results(folder: Path = RESULTS) -> Results:
    """Read every result file of the folder, sorted by name."""
    by_command: dict[str, list[Row]] = {}
    for command in COMMANDS:
        by_command[command] = [
            row
            for file in sorted(folder.glob(f"{command}-*.json"))
            for row in json.loads(file.read_text())
        ]
    return Results(by_command)


def rows_to_json(rows: Sequence[Row]) -> str:
    return json.dumps(rows, indent=2) + "\n"
