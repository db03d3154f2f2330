"""Transfer of flips to judges: NA and NAFR.

A judge shares a flip if it gives the original the GNN's old class and the answer the GNN's new
class. Both figures count only instances whose original the judge classifies like the GNN:
NA = shared flips / flipped instances, NAFR = shared flips / all instances, each the mean over
judges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from models.evaluation.bootstrap import percentile_interval, resampled_shares


@dataclass(frozen=True)
class Votes:
    """What the judges say about the first answer for each instance."""

    agrees: Tensor  # [judge, instance] bool: it classifies the original like the GNN
    flipped: Tensor  # [instance] bool: there is an answer
    shared: Tensor  # [judge, instance] bool: it shares the flip


@dataclass(frozen=True)
class TransferFigures:
    """None where no judge has an instance to count."""

    na: float | None
    na_low: float | None  # 95 % bootstrap interval over instances
    na_high: float | None
    nafr: float | None
    nafr_low: float | None
    nafr_high: float | None


def graph_votes(
    gnn: Gnn,
    judges: Sequence[Gnn],
    originals: Sequence[Graph],
    edited: Sequence[Graph | None],  # None: no answer
    device: torch.device,
) -> Votes:
    """Ask every judge about the originals and the edited graphs."""
    flipped = torch.tensor([graph is not None for graph in edited], dtype=torch.bool)
    answers = [graph for graph in edited if graph is not None]
    old, new = _classes(gnn, originals, device), _classes(gnn, answers, device)
    agrees, shared = [], []
    for judge in judges:
        judge_agrees = _classes(judge, originals, device) == old
        same_new_class = torch.zeros_like(flipped)
        same_new_class[flipped] = _classes(judge, answers, device) == new
        agrees.append(judge_agrees)
        shared.append(judge_agrees & same_new_class)
    return Votes(torch.stack(agrees), flipped, torch.stack(shared))


def transfer_figures(votes: Votes, *, seed: int) -> TransferFigures:
    """NA and NAFR with intervals; the same seed gives the same resamples for every explainer."""
    whole = torch.ones(1, len(votes.flipped), dtype=torch.float64)
    shares = resampled_shares(len(votes.flipped), seed)
    figures = []
    for measure in (na, nafr):
        value = float(measure(votes, whole))
        low, high = percentile_interval(measure(votes, shares))
        figures += [value, low, high]
    return TransferFigures(*(None if math.isnan(figure) else figure for figure in figures))


def na(votes: Votes, weights: Tensor) -> Tensor:
    """NA for each row of instance weights [resample, instance]: [resample], NaN if undefined."""
    return _mean_ratio(votes.shared, votes.agrees & votes.flipped, weights)


def nafr(votes: Votes, weights: Tensor) -> Tensor:
    """NAFR for each row of instance weights [resample, instance]: [resample], NaN if undefined."""
    return _mean_ratio(votes.shared, votes.agrees, weights)


def _mean_ratio(counted: Tensor, among: Tensor, weights: Tensor) -> Tensor:
    """Mean over judges of weighted shares; both are [judge, instance], a judge may have none."""
    ratios = (weights @ counted.T.double()) / (weights @ among.T.double())  # [resample, judge]
    return ratios.nanmean(dim=1)


def _classes(gnn: Gnn, graphs: Sequence[Graph], device: torch.device) -> Tensor:
    if not graphs:
        return torch.empty(0, dtype=torch.int64)
    return predict(gnn, graphs, device).argmax(dim=1).cpu()
