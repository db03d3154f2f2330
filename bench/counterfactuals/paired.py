"""Compare the answers of two dumps instance by instance, for example of two commits."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.data.splits import DataFormatError
from models.evaluation.bootstrap import percentile_interval, resampled_shares
from models.metrics.scores import Instance, cf_acc_auc, cf_acc_curve

_SAME = ("spec.json", "weights.safetensors", "instances.json")


@dataclass(frozen=True)
class PairedAuc:
    """Strict AUC of a method in both dumps; the interval is of the mean paired change."""

    method: str
    instances: int
    before: float
    after: float
    change: float
    low: float
    high: float


def compare_dumps(before: Path, after: Path, *, seed: int) -> list[PairedAuc]:
    """One row for each method of both dumps; they must have the same GNN and instances."""
    for name in _SAME:
        if (before / name).read_bytes() != (after / name).read_bytes():
            raise DataFormatError(f"{before / name} and {after / name} differ; compare equal ones.")
    edges = [len(graph["edges"]) for graph in json.loads((after / "instances.json").read_text())]
    theirs, ours = (json.loads((one / "edits.json").read_text()) for one in (before, after))
    rows = []
    for method in ours:
        if method in theirs:
            areas = _areas(edges, theirs[method]), _areas(edges, ours[method])
            rows.append(_paired(method, *areas, seed))
    return rows


def _areas(edges: list[int], answers: list[Any]) -> Tensor:
    """The area under the curve of each instance, by the smallest of its answers: [instance]."""
    fewest = [min(map(len, found)) if found else None for found in answers]
    curves = [
        cf_acc_curve([Instance(count, edits)]) for count, edits in zip(edges, fewest, strict=True)
    ]
    return torch.tensor([cf_acc_auc(curve) for curve in curves], dtype=torch.float64)


def _paired(method: str, before: Tensor, after: Tensor, seed: int) -> PairedAuc:
    gaps = after - before
    interval = percentile_interval(resampled_shares(len(gaps), seed) @ gaps)
    return PairedAuc(
        method,
        len(gaps),
        float(before.mean()),
        float(after.mean()),
        float(gaps.mean()),
        interval.low,
        interval.high,
    )
