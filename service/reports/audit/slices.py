"""Shares of the instances by class and by size, counted in one pass over the rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from d4explain.contracts.evaluations.rows import EvaluationRow

_Z = 1.959963984540054  # of a 95 % interval
SHARES = ("accuracy", "validity", "one_edit_share", "brittle_share")


@dataclass(frozen=True)
class Share:
    """A share of a slice. `explainer` is None for accuracy, which no explainer changes."""

    figure: str
    slice: str
    explainer: str | None
    successes: int
    count: int

    @property
    def value(self) -> float | None:
        return self.successes / self.count if self.count else None

    @property
    def interval(self) -> tuple[float, float] | None:
        return wilson(self.successes, self.count) if self.count else None


def wilson(successes: int, count: int) -> tuple[float, float]:
    """The 95 % score interval of a share (Wilson 1927); it also holds near 0 and 1."""
    share = successes / count
    centre = (share + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z * math.sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    half /= 1 + _Z**2 / count
    return round(max(0.0, centre - half), 9), round(min(1.0, centre + half), 9)


class SliceCounts:
    """Counts rows by predicted class and by thirds of the numbers of edges."""

    def __init__(self, edge_counts: NDArray[np.int64], class_names: dict[int, str]) -> None:
        low, high = np.quantile(edge_counts, (1 / 3, 2 / 3), method="lower")
        self._bounds = int(low), int(high)
        self._sizes = (
            f"graphs with at most {low} edges",
            f"graphs with {low + 1} to {high} edges",
            f"graphs with more than {high} edges",
        )
        self._class_names = class_names
        self._successes: Counter[tuple[str, str, str | None]] = Counter()
        self._counts: Counter[tuple[str, str, str | None]] = Counter()
        self.labels: Counter[int] = Counter()
        self._first: str | None = None

    def add(self, row: EvaluationRow) -> None:
        self._first = self._first or row.explainer
        for place in (self._class_slice(row), self._size_slice(row)):
            if row.explainer == self._first and row.label is not None:
                self._note("accuracy", place, None, row.label == row.predicted_class)
            self._note("validity", place, row.explainer, row.found)
            self._note("one_edit_share", place, row.explainer, row.edits == 1)
            if row.verdict in ("meaningful", "brittle"):
                self._note("brittle_share", place, row.explainer, row.verdict == "brittle")
        if row.explainer == self._first and row.label is not None:
            self.labels[row.label] += 1

    def shares(self) -> list[Share]:
        """By figure, explainer and slice; slices without observations are left out."""
        return [
            Share(figure, place, explainer, self._successes[key], count)
            for key, count in self._counts.items()
            for figure, place, explainer in (key,)
        ]

    def slices(self) -> Sequence[str]:
        """Classes, then sizes from small to large; only those that have instances."""
        found = dict.fromkeys(place for _, place, _ in self._counts)
        sizes = [place for place in self._sizes if place in found]
        return [*sorted(found.keys() - set(sizes)), *sizes]

    def _note(self, figure: str, place: str, explainer: str | None, success: bool) -> None:
        key = figure, place, explainer
        self._counts[key] += 1
        self._successes[key] += success

    def _class_slice(self, row: EvaluationRow) -> str:
        name = self._class_names.get(row.predicted_class, f"class {row.predicted_class}")
        return f"predicted “{name}”"

    def _size_slice(self, row: EvaluationRow) -> str:
        low, high = self._bounds
        return self._sizes[(row.edge_count > low) + (row.edge_count > high)]
