"""Estimates time and memory of global counterfactuals, as an order of magnitude.

Aligning graphs with candidates takes nearly all the time. The constants are fitted to alignments
of one core; the number of graphs of the class is unknown before the GNN has classified them, so the
labels stand in for it or, without labels, equal classes.
"""

from __future__ import annotations

from dataclasses import dataclass

from d4explain.contracts.global_counterfactuals.requests import GlobalRequest
from service.submission.cost_estimates import Estimate, rounded_seconds
from store.database.tables import Dataset

_NEIGHBOURS = 350  # graphs that a candidate is aligned with at most
_STARTS = 2  # of an alignment in the search
_FINAL_STARTS = 3  # of those that measure the coverage
_NEAR_SHARE = 0.3  # of the graphs that are near enough to a candidate to be aligned
_MAX_NODES = 100  # larger graphs take no part
_SECONDS = 2.5e-4  # of one alignment
_SECONDS_PER_NODE_CUBED = 8e-9
_MIN_SECONDS = 1.0
_MIN_BYTES = 60_000_000
_BYTES_PER_CELL = 4  # of the adjacency of each reference graph
_BYTES_PER_ALIGNED_CELL = 60  # of 64 graphs that are aligned together


@dataclass(frozen=True)
class _PresetSize:
    """Those of `models.global_counterfactuals.config`, which needs torch."""

    seeds: int
    rounds: int


PRESET_SIZES = {
    "fast": _PresetSize(2, 3),
    "balanced": _PresetSize(6, 5),
    "thorough": _PresetSize(12, 6),
}


def global_estimate(request: GlobalRequest, dataset: Dataset) -> Estimate:
    """Neither a denoiser nor witnesses are trained."""
    size = PRESET_SIZES[request.preset]
    graphs = _graphs_of_class(request.source_class, dataset)
    near = min(_NEIGHBOURS, _NEAR_SHARE * graphs)
    grown = request.count * (2 * size.seeds + 1)  # from both classes; each once more at the end
    aligned = grown * size.rounds * near * _STARTS
    aligned += request.count * _NEAR_SHARE * graphs * _FINAL_STARTS
    nodes = min(dataset.mean_nodes, _MAX_NODES)
    seconds = _MIN_SECONDS + aligned * (_SECONDS + _SECONDS_PER_NODE_CUBED * nodes**3)
    if request.time_budget is not None:
        seconds = min(seconds, request.time_budget)
    largest = min(dataset.max_nodes, _MAX_NODES)
    return Estimate(
        cases=[],
        memory_bytes=round(
            _MIN_BYTES
            + _BYTES_PER_CELL * dataset.graph_count * dataset.mean_nodes**2
            + 64 * _BYTES_PER_ALIGNED_CELL * largest**2
        ),
        seconds=rounded_seconds(seconds),
        trains_denoiser=False,
        trains_witnesses=False,
        denoiser_seconds=0.0,
        witness_seconds=0.0,
        total_seconds=rounded_seconds(seconds),
        provisional=False,
    )


def _graphs_of_class(label: int, dataset: Dataset) -> float:
    labelled = sum(dataset.label_counts.values())
    if not labelled:
        return dataset.graph_count / 2
    share = float(dataset.label_counts.get(str(label), 0)) / labelled
    return dataset.graph_count * share
