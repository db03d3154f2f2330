"""Random splits of unseen graphs into calibration graphs and a third part that is ranked.

Typicality is a rank among a sample of calibration graphs, so the calibration varies as the third
part does. If all graphs had one size, the typicality of the third part would compare with a regular
grid of as many values as calibration graphs exactly as the third part's scores compare with the
calibration's scores. The two-sample Kolmogorov-Smirnov test with that grid therefore has the right
level. A one-sample test would ignore the variation of the calibration and reject too often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import ks_2samp
from torch import Tensor

from models.diffusion.typicality import LOW, Calibration
from models.training.detection import area_under_roc

UNIFORM_P = 0.05  # a split passes with at least this p


@dataclass(frozen=True)
class Scored:
    """The scores and node counts of unseen graphs, and the scores of their edited versions."""

    scores: Tensor  # [graph]
    edited: dict[float, Tensor]  # share of edits: [graph]
    sizes: Tensor  # [graph] int64
    from_test: Tensor  # [graph] bool; the others are validation graphs


@dataclass(frozen=True)
class SplitFigures:
    p: float  # of the Kolmogorov-Smirnov test
    low: float  # share of the third part that is flagged
    ranked: int  # graphs of the third part with a typicality
    unranked: int  # graphs of a size that the calibration lacks
    auc: dict[float, float]  # by share of edits; test graphs only
    detected: dict[float, float]  # share of the edited test graphs that is flagged


def split_figures(
    scored: Scored, calibration_count: int, generator: torch.Generator
) -> SplitFigures:
    """Calibrates on that many random graphs and ranks the others and their edited versions."""
    order = torch.randperm(len(scored.sizes), generator=generator)
    chosen = order[:calibration_count]
    calibration = Calibration(scored.scores[chosen], scored.sizes[chosen])
    rest = order[calibration_count:].tolist()
    third = [graph for graph in rest if calibration.fault(int(scored.sizes[graph])) is None]
    values = _ranks(calibration, scored.scores, scored.sizes, third)
    # A uniform share of the step between two values makes them continuous.
    step = torch.rand(len(third), generator=generator, dtype=torch.float64) / (
        1 + calibration_count
    )
    test = [place for place, graph in enumerate(third) if scored.from_test[graph]]
    auc, detected = {}, {}
    for share, scores in scored.edited.items():
        edited = _ranks(calibration, scores, scored.sizes, [third[place] for place in test])
        both = torch.cat([values[test], edited])
        is_original = torch.arange(len(both)) < len(test)
        auc[share] = area_under_roc(both, is_original) or 0.0
        detected[share] = float((edited < LOW).double().mean())
    return SplitFigures(
        p=uniformity_p(values - step, calibration_count),
        low=float((values < LOW).double().mean()),
        ranked=len(third),
        unranked=len(rest) - len(third),
        auc=auc,
        detected=detected,
    )


def uniformity_p(values: Tensor, calibration_count: int) -> float:
    """p of the two-sample test of the values with a grid of `calibration_count` in [0, 1]."""
    grid = (np.arange(calibration_count) + 0.5) / calibration_count
    return float(ks_2samp(values.numpy(), grid).pvalue)


def _ranks(
    calibration: Calibration, scores: Tensor, sizes: Tensor, graphs: Sequence[int]
) -> Tensor:
    """The typicality of these graphs: [graph]."""
    chosen = torch.tensor(graphs)
    values = torch.zeros(len(graphs), dtype=torch.float64)
    for nodes in set(sizes[chosen].tolist()):
        alike = sizes[chosen] == nodes
        values[alike] = calibration.rank(scores[chosen][alike], nodes)
    return values
