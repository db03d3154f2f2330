"""Significance against SciPy, and the error rates of the tests by simulation."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from models.evaluation.bootstrap import ratio_figure, resampled_shares
from models.evaluation.significance import (
    holm,
    paired_difference,
    retraining_difference,
    student_t_p_value,
)


@given(st.floats(-50, 50), st.integers(1, 60))
def test_students_t_is_that_of_scipy(statistic: float, freedom: int) -> None:
    expected = 2 * stats.t.sf(abs(statistic), freedom)
    assert student_t_p_value(statistic, freedom) == pytest.approx(expected, rel=1e-6, abs=1e-12)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_rejects_what_scipys_step_down_definition_rejects(p_values: list[float]) -> None:
    corrected = holm(p_values)
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for alpha in (0.01, 0.05, 0.3):
        rejected = set()
        for rank, position in enumerate(order):
            if p_values[position] * (len(p_values) - rank) > alpha:
                break
            rejected.add(position)
        assert {i for i, p in enumerate(corrected) if p <= alpha} == rejected


def test_the_permutation_test_is_that_of_scipy() -> None:
    generator = torch.Generator().manual_seed(0)
    before = torch.rand(40, generator=generator, dtype=torch.float64)
    after = before + 0.1 * torch.randn(40, generator=generator, dtype=torch.float64) + 0.03
    result = paired_difference(before, after, seed=1)
    reference = stats.permutation_test(
        (after.numpy(), before.numpy()),
        lambda x, y, axis: (x - y).mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=20_000,
        rng=3,
    )
    assert result.p_value == pytest.approx(reference.pvalue, abs=0.02)
    assert result.low < result.difference < result.high
    assert result.difference == pytest.approx(float((after - before).mean()))
    assert result.standard_error == pytest.approx(
        float((after - before).std()) / math.sqrt(40), rel=0.1
    )


def test_equal_evaluations_do_not_differ() -> None:
    values = torch.rand(10, dtype=torch.float64)
    result = paired_difference(values, values, seed=0)
    assert (result.difference, result.p_value, result.effect) == (0.0, 1.0, None)
    assert (
        retraining_difference([1.0, 1.0, 1.0], 1.0, standard_error=0.0, instances=50).p_value == 1.0
    )
    assert (
        retraining_difference([1.0, 1.0, 1.0], 0.9, standard_error=0.0, instances=50).p_value == 0.0
    )


def test_trainings_of_one_recipe_are_rejected_as_often_as_alpha_says() -> None:
    """A paired test over instances rejects nearly all of them; that is why it is not the test."""
    generator = torch.Generator().manual_seed(7)
    runs, instances = 1000, 300
    rejected = paired = 0
    for run in range(runs):
        # Each training has a shift of its own, far above the noise of the mean over instances.
        shifts = 0.05 * torch.randn(6, generator=generator, dtype=torch.float64)
        values = [
            0.7 + shift + 0.1 * torch.randn(instances, generator=generator, dtype=torch.float64)
            for shift in shifts
        ]
        means = [float(value.mean()) for value in values]
        se = float((values[5] - values[0]).std()) / math.sqrt(instances)
        p = retraining_difference(means[:5], means[5], standard_error=se, instances=300).p_value
        rejected += p <= 0.05
        if run < 100:
            difference = paired_difference(values[0], values[5], seed=0, permutations=200)
            paired += difference.p_value <= 0.05
    assert 0.03 < rejected / runs < 0.07
    assert paired > 60


def test_a_shift_beyond_the_spread_is_found() -> None:
    result = retraining_difference(
        [0.80, 0.81, 0.79, 0.80, 0.82], 0.60, standard_error=0.01, instances=50
    )
    assert result.p_value < 1e-3
    assert result.effect is not None
    assert result.effect < -15


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_trainings_say_how_many_are_needed(count: int) -> None:
    with pytest.raises(ValueError, match="needs 3 trainings"):
        retraining_difference([0.5] * count, 0.5, standard_error=0.1, instances=50)


def test_the_interval_of_a_ratio_covers_its_true_value() -> None:
    """200 samples of a population with ratio 0.4; the 95 % interval should miss about 10."""
    generator = torch.Generator().manual_seed(3)
    missed = 0
    for seed in range(200):
        among = (torch.rand(150, generator=generator) < 0.6).double()
        counted = among * (torch.rand(150, generator=generator) < 0.4).double()
        figure = ratio_figure(counted, among, resampled_shares(150, seed, 400))
        assert figure is not None
        assert figure.count == int(among.sum())
        missed += not figure.low <= 0.4 <= figure.high
    assert 2 <= missed <= 22


@pytest.mark.parametrize("between", [0.0, 0.5, 1.0, 4.0, 16.0])
@pytest.mark.parametrize("count", [3, 5, 8])
def test_equal_trainings_are_rejected_at_most_as_often_as_the_level_says(
    count: int, between: float
) -> None:
    """`between`: variance between trainings over that of a mean over instances."""
    generator = torch.Generator().manual_seed(count)
    deviation = math.sqrt(1 + between)
    values = deviation * torch.randn(4000, count + 1, generator=generator, dtype=torch.float64)
    rejected = sum(
        retraining_difference(row[:-1], row[-1], standard_error=math.sqrt(2), instances=300).p_value
        <= 0.05
        for row in values.tolist()
    )
    assert rejected / 4000 <= 0.06


def test_with_many_instances_and_no_spread_a_large_change_is_found() -> None:
    result = retraining_difference([1.0] * 5, 0.6, standard_error=0.07, instances=50)
    assert result.p_value < 1e-4
    few = retraining_difference([1.0] * 4, 0.6, standard_error=0.07, instances=50)
    assert few.p_value > result.p_value
