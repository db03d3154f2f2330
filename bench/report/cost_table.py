"""CPU seconds of methods per answer, alone and with a share of their training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bench.report.markdown import table

_SHARED_BY = (1, 100, 1000)  # answers
_COLUMNS = {
    "dataset": "data set",
    "method": "method",
    "auc_strict": "AUC strict",
    "gnn_evaluations": "GNN evaluations",
    "train_seconds": "training s",
    "cpu_seconds": "CPU s per answer",
    **{f"of_{count}": f"with training, of {count:,} answers" for count in _SHARED_BY},
}


def cost_table(rows: Iterable[Mapping[str, Any]]) -> str:
    """One line per row that has `train_seconds`; columns that no row has are left out."""
    shown = [{key: row[key] for key in _COLUMNS if key in row} for row in rows]
    return table([{**row, **_shared(row)} for row in shown], _COLUMNS)


def _shared(row: Mapping[str, Any]) -> dict[str, float | None]:
    each, training = row["cpu_seconds"], row["train_seconds"]
    if training is None:
        return dict.fromkeys((f"of_{count}" for count in _SHARED_BY), None)
    return {f"of_{count}": each + training / count for count in _SHARED_BY}
