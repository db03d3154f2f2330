"""Measures the distance (MMD) of explanations to the reference set, and its null distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from d4explain.contracts.results import Mmd
from d4explain.gnn.graphs import Graph
from models.metrics.mmd import GraphStatistics, mmd, statistics
from worker.reporting.documents import rounded

_DRAWS = 200
_QUANTILES = ("0.05", "0.25", "0.5", "0.75", "0.95")
_MIN_GRAPHS = 10  # a set of fewer graphs is far from every reference by chance
_MIN_P_VALUE = 0.01


@dataclass(frozen=True)
class Distance:
    mmd: Mmd | None
    warnings: tuple[str, ...] = ()


def distance_to_reference(
    graphs: Sequence[Graph],
    reference: GraphStatistics,
    *,
    seed: int,
) -> Distance:
    """MMD of a set of graphs, with the null distribution for sets of the same size.

    The null draws its sets from the reference, so it compares at most half of the reference.
    """
    if not graphs:
        return Distance(None)
    if reference.count < 2:
        return Distance(None, ("no MMD: the reference has only one graph",))
    n = min(len(graphs), reference.count // 2)
    compared = statistics(graphs)
    warnings: tuple[str, ...] = ()
    if n < len(graphs):
        drawn = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(seed))[:n]
        compared = compared.select(drawn)
        warnings = (
            f"MMD compares {n} of the {len(graphs)} graphs: at most half the size of the reference",
        )
    score = mmd(compared, reference)
    null = reference.null(n, _DRAWS, seed)  # [draw]
    levels = torch.tensor([float(level) for level in _QUANTILES], dtype=null.dtype)
    p_value = float((null >= score.sum).double().mean())
    return Distance(
        Mmd(
            degree=rounded(score.degree),
            clustering=rounded(score.clustering),
            spectrum=rounded(score.spectrum),
            sum=rounded(score.sum),
            null_quantiles={
                level: rounded(value)
                for level, value in zip(_QUANTILES, null.quantile(levels).tolist(), strict=True)
            },
            p_value=rounded(p_value),
            graph_count=n,
            reference_count=reference.count,
        ),
        (*warnings, *_doubts(n, p_value)),
    )


def _doubts(graphs: int, p_value: float) -> list[str]:
    """Why the MMD is not what a reader may take it for."""
    doubts = []
    if graphs < _MIN_GRAPHS:
        counted = "1 graph" if graphs == 1 else f"{graphs} graphs"
        doubts.append(
            f"MMD compares {counted}; below {_MIN_GRAPHS} it says little. Compare it with its null "
            "quantiles only"
        )
    if p_value < _MIN_P_VALUE:
        doubts.append(
            f"MMD: these graphs differ from the reference set (p {_shown_p(p_value)}); as a set "
            "they do not look like its graphs"
        )
    return doubts


def _shown_p(p_value: float) -> str:
    return f"= {p_value:.3f}" if p_value > 0 else f"< {1 / _DRAWS}"
