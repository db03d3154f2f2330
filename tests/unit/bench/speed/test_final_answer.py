"""Training costs before a final answer: what the ratio compares."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.speed.training.final_answer import TrainingCosts, WitnessCost

COSTS = TrainingCosts(
    graphs=200,
    steps=300,
    denoiser=30.0,
    all_steps=100.0,
    witnesses=WitnessCost(40.0, 0.9, 0.8),
    all_epochs=WitnessCost(60.0, 0.9, 0.8),
)


def test_the_longer_training_decides() -> None:
    assert COSTS.ratio == pytest.approx(40 / 100)
    slower = replace(COSTS, witnesses=replace(COSTS.witnesses, seconds=150.0))
    assert slower.ratio == pytest.approx(150 / 100)
    assert replace(COSTS, all_steps=50.0).ratio == pytest.approx(40 / 60)
