"""Targets of the typicality measurement."""

from __future__ import annotations

from collections.abc import Iterator

from bench.report.results_store import Results
from bench.report.targets.verdict import Verdict

_COMMAND = "typicality"
_REQUIRED_SHARE = 0.9  # 18 of 20 splits


def typicality_verdicts(results: Results) -> Iterator[Verdict]:
    for row in results.rows(_COMMAND):
        yield Verdict(
            _COMMAND,
            row["dataset"],
            "Kolmogorov-Smirnov p ≥ .05 in 18 of 20 splits",
            f"{row['uniform_splits']} of {row['splits']}",
            row["uniform_splits"] >= _REQUIRED_SHARE * row["splits"],
        )
