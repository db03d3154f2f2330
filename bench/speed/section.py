"""The result of one speed benchmark: figures and tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, TypeVar


@dataclass(frozen=True)
class Table:
    """A table to print and save; a cell is text or a number."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float | None, ...], ...]


@dataclass(frozen=True)
class Figures:
    """Base class of a benchmark's figures; every field is `float` or `float | None`.

    Each field becomes a key of the saved row.
    """


F_co = TypeVar("F_co", bound=Figures, covariant=True)


@dataclass(frozen=True)
class Section(Generic[F_co]):
    figures: F_co
    tables: tuple[Table, ...] = field(default=())


def result_row(name: str, sections: Iterable[Section[Figures]]) -> dict[str, Any]:
    """The figures of all sections by name, and their tables, as one row to save."""
    figures: dict[str, Any] = {"dataset": name}
    tables = []
    for section in sections:
        figures |= asdict(section.figures)
        tables += [asdict(table) for table in section.tables]
    return {**figures, "tables": tables}


def figures_table(name: str, section: Section[Figures]) -> Table:
    """The figures of a section as a table."""
    return Table(f"figures of {name}", ("figure", "value"), tuple(asdict(section.figures).items()))


def format_cell(cell: str | float | None) -> str:
    """Four significant digits; numbers from 1000 without decimals."""
    if isinstance(cell, str):
        return cell
    if cell is None:
        return "-"
    return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.4g}"
