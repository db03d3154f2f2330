"""Tests of differences between two evaluations: paired instances, retrained GNNs, Holm.

Two explainers on one GNN differ if the paired differences of the instances are not symmetric around
zero. Two trainings of one GNN always differ by more than that, so a new version is compared with
the spread of retrained GNNs instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.evaluation.bootstrap import percentile_interval, resampled_shares

PERMUTATIONS = 10_000
MIN_TRAININGS = 3  # the baseline and two retrained GNNs
_TRAININGS_FOR_MORE_FREEDOM = 5


@dataclass(frozen=True)
class PairedDifference:
    """Candidate minus baseline over the instances that have both values."""

    difference: float
    low: float  # 95 % bootstrap interval over instances
    high: float
    standard_error: float  # over instances
    effect: float | None  # mean over standard deviation of the differences; None if they are equal
    p_value: float
    count: int


@dataclass(frozen=True)
class RetrainingDifference:
    """A candidate against trainings of the same recipe."""

    expected: float  # mean of the trainings
    deviation: float  # of one training
    difference: float  # candidate minus mean
    effect: float | None  # in deviations; None if all trainings agree
    p_value: float
    trainings: int


def paired_difference(
    baseline: Tensor,  # [instance]
    candidate: Tensor,  # [instance]
    *,
    seed: int,
    permutations: int = PERMUTATIONS,
) -> PairedDifference:
    """The paired sign-flip permutation test, two-sided.

    Under the null hypothesis each difference is as likely as its negative. The observed signs count
    as one permutation, so p is never 0.
    """
    differences = (candidate - baseline).double()
    count = len(differences)
    if count < 2:
        raise ValueError(f"a paired test needs at least two instances; got {count}")
    mean = float(differences.mean())
    deviation = float(differences.std())
    resampled = resampled_shares(count, seed) @ differences
    low, high = percentile_interval(resampled)
    moved = differences[differences != 0]
    generator = torch.Generator().manual_seed(seed)
    exceeding = 1
    for batch in _batches(permutations, len(moved)):
        signs = torch.randint(2, (batch, len(moved)), generator=generator).double() * 2 - 1
        sums = (signs @ moved).abs()
        exceeding += int((sums >= abs(float(moved.sum())) * (1 - 1e-9)).sum())
    return PairedDifference(
        difference=mean,
        low=low,
        high=high,
        standard_error=float(resampled.std()),
        effect=mean / deviation if deviation > 0 else None,
        p_value=exceeding / (permutations + 1) if len(moved) else 1.0,
        count=count,
    )


def retraining_difference(
    trainings: Sequence[float], candidate: float, *, standard_error: float, instances: int
) -> RetrainingDifference:
    """Whether the candidate is one more training of the same recipe, two-sided.

    With n trainings of mean m and deviation s, the next one has mean m and variance s²(1 + 1/n);
    the standardised difference has Student's t distribution with n - 1 degrees of freedom.
    `standard_error` is that of the paired difference over `instances`. It replaces the predicted
    deviation if it is larger, as when all trainings agree at a bound. It is known far better than
    the spread of a few trainings: from five trainings on, the degrees of freedom grow by the factor
    by which its variance is larger. In simulations this rejects equal trainings at most as often as
    the level says, whatever the share of the variance between trainings; with three it would not.
    """
    count = len(trainings)
    if count < MIN_TRAININGS:
        raise ValueError(
            f"the noise of retraining needs {MIN_TRAININGS} trainings, the baseline and "
            f"{MIN_TRAININGS - 1} retrained GNNs; got {count}"
        )
    mean = math.fsum(trainings) / count
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in trainings) / (count - 1))
    difference = candidate - mean
    spread = deviation * math.sqrt(1 + 1 / count)
    noise = max(spread, standard_error)
    if noise > 0:
        freedom = _freedom(count, instances, spread, standard_error)
        p_value = student_t_p_value(difference / noise, freedom)
    else:
        p_value = 1.0 if difference == 0 else 0.0
    return RetrainingDifference(
        expected=mean,
        deviation=deviation,
        difference=difference,
        effect=difference / deviation if deviation > 0 else None,
        p_value=p_value,
        trainings=count,
    )


def _freedom(trainings: int, instances: int, spread: float, standard_error: float) -> int:
    own = trainings - 1
    if trainings < _TRAININGS_FOR_MORE_FREEDOM or standard_error <= spread:
        return own
    most = max(own, instances - 1)
    if spread == 0:
        return most
    return min(most, int(own * (standard_error / spread) ** 2))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's corrected p values, in the order of the given ones (Holm 1979)."""
    count = len(p_values)
    corrected = [0.0] * count
    largest = 0.0
    for rank, position in enumerate(sorted(range(count), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (count - rank) * p_values[position]))
        corrected[position] = largest
    return corrected


def student_t_p_value(statistic: float, freedom: int) -> float:
    """P(|t| ≥ |statistic|) for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4).

    In closed form, so that no p value depends on a numerical integration.
    """
    if math.isinf(statistic):
        return 0.0
    angle = math.atan(abs(statistic) / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    if freedom == 1:
        inside = 2 * angle / math.pi
    elif freedom % 2:
        total = term = cosine
        for odd in range(3, freedom - 1, 2):
            term *= cosine**2 * (odd - 1) / odd
            total += term
        inside = 2 / math.pi * (angle + sine * total)
    else:
        total = term = 1.0
        for even in range(2, freedom - 1, 2):
            term *= cosine**2 * (even - 1) / even
            total += term
        inside = sine * total
    return min(1.0, max(0.0, 1 - inside))


def _batches(count: int, width: int) -> list[int]:
    """Sizes of batches of permutations, of at most a few million signs."""
    at_once = max(1, 4_000_000 // max(1, width))
    whole, rest = divmod(count, at_once)
    return [at_once] * whole + ([rest] if rest else [])
