"""Targets of global counterfactuals."""

from __future__ import annotations

from collections.abc import Iterator

from bench.report.paper_figures import GLOBAL_COVERAGE
from bench.report.results_store import Results
from bench.report.targets.verdict import Verdict, format_pair

_COMMAND = "global"


def global_verdicts(results: Results) -> Iterator[Verdict]:
    for row in results.rows(_COMMAND):
        published = GLOBAL_COVERAGE.get(row["dataset"])
        if published is not None and row["count"] == 10 and row["radius"] == 0.1:
            yield Verdict(
                _COMMAND,
                row["dataset"],
                "coverage above GCFExplainer's, 10 counterfactuals, radius .1",
                format_pair(row["coverage"], published),
                row["coverage"] > published,
            )
