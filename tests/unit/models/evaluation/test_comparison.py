"""What moved between evaluations whose differences are known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from d4explain.contracts.evaluations.gate import FIGURES_OF_COMPARISONS
from models.evaluation.answers import InstanceAnswer
from models.evaluation.comparison import FIGURES, agreement, compare

COUNT = 120


def training(seed: int, *, accuracy: float = 0.9, one_edit: float = 0.5) -> list[InstanceAnswer]:
    """A GNN whose accuracy and brittleness vary from training to training."""
    generator = torch.Generator().manual_seed(seed)
    shift = 0.02 * torch.randn(2, generator=generator)
    correct = torch.rand(COUNT, generator=generator) < accuracy + shift[0]
    easy = torch.rand(COUNT, generator=generator) < one_edit + shift[1]
    return [
        InstanceAnswer(
            position,
            nodes=12,
            edges=20,
            old_class=1 if right else 0,
            label=1,
            new_class=0 if right else 1,
            added=((0, 5),) if flips else ((0, 5), (1, 6)),
            fidelity=0.6,
            gnn_evaluations=100,
        )
        for position, (right, flips) in enumerate(zip(correct.tolist(), easy.tolist(), strict=True))
    ]


RETRAINED = [training(seed) for seed in range(1, 8)]


def moved(candidate: list[InstanceAnswer], **options: object) -> dict[str, bool | None]:
    figures = compare(
        training(0),
        candidate,
        retrained=RETRAINED,
        same_gnn=False,
        alpha=0.01,
        seed=0,
        **options,  # type: ignore[arg-type]
    )
    return {figure.name: figure.worse for figure in figures if figure.moved}


def test_a_retrained_equal_gnn_rarely_moves() -> None:
    wrong = [seed for seed in range(100, 160) if moved(training(seed))]
    assert len(wrong) <= 3  # 1 % each


def test_a_worse_gnn_is_worse_and_a_better_one_moved_only() -> None:
    assert moved(training(9, accuracy=0.5))["accuracy"] is True
    fragile = moved(training(9, one_edit=1.0))
    assert fragile["one_edit_share"] is True
    assert fragile["edits"] is True
    assert moved(training(9, one_edit=0.0))["one_edit_share"] is False


def test_a_paired_test_alone_would_call_retrained_gnns_different() -> None:
    """With a shift between trainings, instances are not the noise."""
    shifted = [
        [replace(one, gnn_evaluations=100 + 40 * seed + one.position % 3) for one in training(seed)]
        for seed in range(6)
    ]
    base, other, *rest = shifted
    options = {"same_gnn": False, "alpha": 0.01, "seed": 0}
    alone = compare(base, other, **options)  # type: ignore[arg-type]
    allowed = compare(base, other, retrained=rest, **options)  # type: ignore[arg-type]
    assert next(one for one in alone if one.name == "gnn_evaluations").moved
    assert not next(one for one in allowed if one.name == "gnn_evaluations").moved


def test_two_explainers_are_compared_in_pairs() -> None:
    base = training(0)
    more = [
        replace(one, added=(*one.added, (2, 7)), gnn_evaluations=50) if one.position % 2 else one
        for one in base
    ]
    figures = {one.name: one for one in compare(base, more, same_gnn=True, alpha=0.01, seed=0)}
    assert figures["edits"].worse is True
    assert figures["edits"].difference == pytest.approx(0.5)
    assert figures["gnn_evaluations"].moved
    assert figures["gnn_evaluations"].worse is False
    assert "accuracy" not in figures or not figures["accuracy"].moved
    assert math.isclose(agreement(base, more), 1.0)


def test_figures_that_nobody_measured_or_that_are_constant_are_left_out() -> None:
    names = {
        one.name
        for one in compare(
            training(0), training(1), retrained=RETRAINED, same_gnn=False, alpha=0.01, seed=0
        )
    }
    assert names == {"accuracy", "one_edit_share", "cf_acc_auc", "edits"}


def test_gates_know_the_figures_of_comparisons() -> None:
    assert set(FIGURES_OF_COMPARISONS) == set(FIGURES)


def test_one_retrained_gnn_is_too_few() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        compare(
            training(0), training(1), retrained=RETRAINED[:1], same_gnn=False, alpha=0.01, seed=0
        )
