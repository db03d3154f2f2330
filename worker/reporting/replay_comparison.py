"""Compares a repeated answer with the recorded one, value by value."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from d4explain.contracts.receipts.replay_reports import (
    MAX_DIFFERENCES,
    Difference,
    Leaf,
    ReplayOutcome,
    ReplayReport,
)

# Scores are equal to six digits; whatever belongs to a graph is equal exactly.
_TOLERANCE = 1e-6
_EXACT = frozenset({"x", "edge_attr"})
_TIMES = frozenset({"timings", "seconds"})
_ENVIRONMENT = frozenset({"environment", "versions", "device"})
_UNIT = re.compile(r"/(?:answers|examples|counterfactuals)/([0-9]+)")
_MISSING = object()


def replay_report(
    recorded: Mapping[str, Any], repeated: Mapping[str, Any], seconds: float
) -> ReplayReport:
    """`recorded` and `repeated` are documents of results."""
    comparison = _Comparison()
    comparison.compare("", _comparable(recorded), _comparable(repeated), exact=False)
    return ReplayReport(
        outcome=ReplayOutcome.DIFFERS if comparison.differences else ReplayOutcome.MATCH,
        reason=None,
        compared_values=comparison.compared,
        difference_count=len(comparison.differences),
        differences=comparison.differences[:MAX_DIFFERENCES],
        changed_versions=_changed_versions(recorded, repeated),
        seconds=seconds,
    )


@dataclass
class _Comparison:
    compared: int = 0
    differences: list[Difference] = field(default_factory=list)

    def compare(self, pointer: str, recorded: Any, repeated: Any, *, exact: bool) -> None:
        if isinstance(recorded, dict) and isinstance(repeated, dict):
            for name in recorded | repeated:
                self.compare(
                    f"{pointer}/{_escaped(name)}",
                    recorded.get(name, _MISSING),
                    repeated.get(name, _MISSING),
                    exact=exact or name in _EXACT,
                )
        elif isinstance(recorded, list) and isinstance(repeated, list):
            pairs = zip_longest(recorded, repeated, fillvalue=_MISSING)
            for position, (was, is_now) in enumerate(pairs):
                self.compare(f"{pointer}/{position}", was, is_now, exact=exact)
        else:
            self.compared += 1
            if not _equal(recorded, repeated, exact=exact):
                self.differences.append(_difference(pointer, recorded, repeated))


def _comparable(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document without times and without the environment, which `replay` compares first."""
    return dict(_without(document, _TIMES)) | {
        "receipt": dict(_without(document["receipt"], _ENVIRONMENT))
    }


def _without(document: Mapping[str, Any], names: frozenset[str]) -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        if name in names:
            continue
        if isinstance(value, list):
            yield (
                name,
                [dict(_without(each, names)) if isinstance(each, dict) else each for each in value],
            )
        else:
            yield name, value


def _equal(recorded: Any, repeated: Any, *, exact: bool) -> bool:
    if isinstance(recorded, float) and isinstance(repeated, float) and not exact:
        return math.isclose(recorded, repeated, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return type(recorded) is type(repeated) and bool(recorded == repeated)


def _difference(pointer: str, recorded: Any, repeated: Any) -> Difference:
    unit = _UNIT.match(pointer)
    return Difference(
        pointer=pointer,
        graph=None if unit is None else int(unit[1]),
        recorded=_leaf(recorded),
        repeated=_leaf(repeated),
    )


def _leaf(value: Any) -> Leaf:
    if value is _MISSING:
        return None
    if isinstance(value, dict):
        return f"an object with {len(value)} members"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    leaf: Leaf = value
    return leaf


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _changed_versions(
    recorded: Mapping[str, Any], repeated: Mapping[str, Any]
) -> dict[str, list[str | None]]:
    was, is_now = recorded["receipt"]["versions"], repeated["receipt"]["versions"]
    return {
        package: [was.get(package), is_now.get(package)]
        for package in was | is_now
        if was.get(package) != is_now.get(package)
    }
