"""What one part of the speed bench has to say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, TypeVar

Say = Callable[[str, int, int], None]  # what is measured, how many are done, of how many


@dataclass(frozen=True)
class Table:
    """For people; a cell is a word or a number."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | None, ...], ...]


@dataclass(frozen=True)
class Figures:
    """The figures of a part, each `float` or `float | None`: they go into the row by their names.

    The type that a part's `measure` returns says which ones there are.
    """


F_co = TypeVar("F_co", bound=Figures, covariant=True)


@dataclass(frozen=True)
class Section(Generic[F_co]):
    figures: F_co
    tables: tuple[Table, ...] = field(default=())


def row(name: str, sections: Iterable[Section[Figures]]) -> dict[str, Any]:
    """All figures under their names, and the tables."""
    figures: dict[str, Any] = {"dataset": name}
    tables = []
    for section in sections:
        figures |= asdict(section.figures)
        tables += [asdict(table) for table in section.tables]
    return {**figures, "tables": tables}


def listed(name: str, section: Section[Figures]) -> Table:
    """The figures of a part, under the names that they have in its row."""
    return Table(f"figures of {name}", ("figure", "value"), tuple(asdict(section.figures).items()))


def written(cell: str | float | None) -> str:
    """As people read it: four digits, large numbers whole."""
    if isinstance(cell, str):
        return cell
    if cell is None:
        return "-"
    return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.4g}"
