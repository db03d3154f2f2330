"""What one part of the speed bench has to say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Say = Callable[[str, int, int], None]  # what is measured, how many are done, of how many


@dataclass(frozen=True)
class Table:
    """For people; a cell is a word or a number."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float, ...], ...]


@dataclass(frozen=True)
class Section:
    figures: Mapping[str, float | None]  # go into the row by their names
    tables: tuple[Table, ...] = field(default=())


def row(name: str, sections: Iterable[Section]) -> dict[str, Any]:
    """All figures under their names, and the tables."""
    figures: dict[str, Any] = {"dataset": name}
    tables = []
    for section in sections:
        figures |= section.figures
        tables += [asdict(table) for table in section.tables]
    return {**figures, "tables": tables}


def written(cell: str | float | None) -> str:
    """As people read it: four digits, large numbers whole."""
    if isinstance(cell, str):
        return cell
    if cell is None:
        return "-"
    return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.4g}"
