"""CPU seconds of methods per answer, alone and with a share of their training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.report.markdown import table
from bench.report.results_store import Results

_SHARED_BY = (1, 100, 1000)  # answers
SHARED_TITLE = "with training, of 1; 100; 1,000 answers"
_COLUMNS = {
    "dataset": "data set",
    "d4": "CPU s per answer, `d4`",
    "train_seconds": "training s",
    "shared": SHARED_TITLE,
    "d4_slopes": "`d4_slopes`",
    "d4_no_denoiser": "`d4_no_denoiser`",
    "greedy": "`greedy`",
    "even": "answers until `d4` is cheaper than without denoiser",
}


def with_training(row: Mapping[str, Any]) -> str | None:
    """CPU seconds per answer if 1, 100 or 1,000 answers share the training."""
    each, training = row["cpu_seconds"], row["train_seconds"]
    if training is None or each is None:
        return None
    costs = [each + training / count for count in _SHARED_BY]
    return "; ".join(f"{cost:.0f}" if cost >= 100 else f"{cost:.2g}" for cost in costs)


def cost_table(results: Results, command: str = "counterfactual") -> str:
    """What the denoiser costs and saves: one line per data set with `d4`."""
    lines = []
    for dataset in results.datasets(command):
        rows = {row["method"]: row for row in results.rows(command, dataset)}
        if "d4" not in rows:
            continue
        ours = rows["d4"]
        line = {name: row["cpu_seconds"] for name, row in rows.items() if name in _COLUMNS}
        line |= {"dataset": dataset, "train_seconds": ours["train_seconds"]}
        without = line.get("d4_no_denoiser")
        if without is not None:
            saved = without - ours["cpu_seconds"]
            line["even"] = f"{ours['train_seconds'] / saved:,.0f}" if saved > 0 else "never"
        lines.append({**line, "shared": with_training(ours)})
    return table(lines, _COLUMNS)
