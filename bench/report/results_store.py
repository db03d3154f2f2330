"""Results that the report is made of: rows as JSON, one file per command and data set."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path("bench/results")
NOT_MEASURED = "not measured"  # a figure that older rows lack
COMMANDS = ("gnns", "counterfactual", "classes", "robustness", "speed")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Results:
    """All kept rows; commands without any have an empty list."""

    of: Mapping[str, Sequence[Row]]

    def rows(self, command: str) -> Sequence[Row]:
        return self.of.get(command, ())

    def datasets(self, command: str) -> list[str]:
        return list(dict.fromkeys(row["dataset"] for row in self.rows(command)))

    def row(self, command: str, **keys: object) -> Row | None:
        """The one row with these values, or None if it is missing."""
        return next((row for row in self.rows(command) if matches(row, keys)), None)


def matches(row: Row, keys: Mapping[str, object]) -> bool:
    return all(row.get(key) == value for key, value in keys.items())


def keep(command: str, rows: Iterable[Row], folder: Path = RESULTS) -> list[Path]:
    """A file per data set, so that measuring one leaves the others' figures alone."""
    by_dataset: dict[str, list[Row]] = {}
    for row in rows:
        by_dataset.setdefault(row["dataset"], []).append(row)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for dataset, some in by_dataset.items():
        file = folder / f"{command}-{dataset}.json"
        file.write_text(document(some))
        files.append(file)
    return files


def read(folder: Path = RESULTS) -> Results:
    """Every file of the folder that a command keeps, by name."""
    of: dict[str, list[Row]] = {}
    for command in COMMANDS:
        of[command] = [
            row
            for file in sorted(folder.glob(f"{command}*.json"))
            for row in json.loads(file.read_text())
        ]
    return Results(of)


def document(rows: Sequence[Row]) -> str:
    return json.dumps(rows, indent=2) + "\n"
