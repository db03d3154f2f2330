"""Bootstrap confidence intervals over instances."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

RESAMPLES = 2000
_LEVELS = (0.025, 0.975)


class Interval(NamedTuple):
    low: float
    high: float


@dataclass(frozen=True)
class Figure:
    """A ratio of sums over instances, with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float
    count: int  # instances with a positive denominator


def resampled_shares(count: int, seed: int, resamples: int = RESAMPLES) -> Tensor:
    """Share of each instance in samples of `count` with replacement: [resample, instance]."""
    draws = torch.randint(count, (resamples, count), generator=torch.Generator().manual_seed(seed))
    shares = torch.zeros(draws.shape, dtype=torch.float64)
    return shares.scatter_add_(1, draws, torch.full(draws.shape, 1 / count, dtype=torch.float64))


def percentile_interval(values: Tensor) -> Interval:
    """The 95 % interval of resampled values [resample]; undefined values (NaN) do not count."""
    low, high = torch.nanquantile(values, torch.tensor(_LEVELS, dtype=torch.float64)).tolist()
    return Interval(low, high)


def ratio_figure(
    counted: Tensor,  # [instance]
    among: Tensor,  # [instance], not negative
    shares: Tensor,  # [resample, instance]
) -> Figure | None:
    """Σ counted / Σ among; None if nothing counts.

    Both sums are resampled, so a ratio of random sums has an interval of its own. A resample that
    draws no instance with a denominator says nothing and is left out.
    """
    counted, among = counted.double(), among.double()
    total = float(among.sum())
    if total <= 0:
        return None
    value = float(counted.sum()) / total
    resampled = (shares @ counted) / (shares @ among)
    low, high = percentile_interval(resampled)
    if math.isnan(low):
        low = high = value
    return Figure(value, low, high, int((among > 0).sum()))
