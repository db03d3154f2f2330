"""The ablation as Markdown tables: per data set the means over seeds of each variant.

The report leaves them out, because they show validation instances.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from bench.report.markdown import table
from bench.report.results_store import RESULTS, Row

_COLUMNS = {
    "variant": "variant",
    "n": "instances",
    "seeds": "seeds",
    "auc_strict": "AUC",
    "auc_change": "change",
    "auc_change_low": "from",
    "auc_change_high": "to",
    "share_changed": "answers changed",
    "na": "NA",
    "c2st": "C2ST",
    "mmd_excess": "MMD excess",
    "mmd_worse": "seeds with a worse MMD",
    "gnn_evaluations": "GNN evaluations",
    "cpu_seconds": "CPU s",
}
_MEANS = (
    *("auc_strict", "auc_change", "auc_change_low", "auc_change_high", "share_changed"),
    *("na", "c2st", "mmd_excess", "gnn_evaluations", "cpu_seconds"),
)


def saved_ablation(folder: Path = RESULTS) -> list[Row]:
    return [
        row
        for file in sorted(folder.glob("ablation-*.json"))
        for row in json.loads(file.read_text())
    ]


def ablation_page(rows: Sequence[Row]) -> str:
    """One table per data set; a variant has a line per number of instances."""
    text = ""
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        own = [row for row in rows if row["dataset"] == dataset]
        groups = dict.fromkeys((row["n"], row["variant"]) for row in own)
        by_variant = [
            _mean_row([row for row in own if (row["n"], row["variant"]) == group])
            for group in groups
        ]
        text += f"\n**{dataset}** (validation instances)\n{table(by_variant, _COLUMNS)}"
    return text


def _mean_row(rows: Sequence[Row]) -> Row:
    """Means over the seeds that measured a figure; bounds of intervals are averaged, too."""
    wide = [{**row, "mmd_excess": _excess(row)} for row in rows]
    means = {}
    for key in _MEANS:
        known = [row[key] for row in wide if row.get(key) is not None]
        means[key] = mean(known) if known else None
    return {
        "variant": rows[0]["variant"],
        "n": rows[0]["n"],
        "seeds": len(rows),
        **means,
        "mmd_worse": sum(row.get("mmd_change_low", 0) > 0 for row in rows),
    }


def _excess(row: Row) -> float | None:
    return None if row["mmd_heldout"] is None else row["mmd_heldout"] - row["mmd_floor"]
