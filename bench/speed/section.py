"""What one part of the speed bench has to say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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
