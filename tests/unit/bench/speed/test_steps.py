"""Benchmark of training steps: recorded products, timing and figures."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch

from bench.speed.benchmarks import SPEED_BENCHMARKS
from bench.speed.timing import fastest_times
from bench.speed.training import learning, peak
from bench.speed.training.products import ProductReplay, products_of
from bench.speed.training.steps import DEFAULT, PAPER, Plan, growth_exponent, measure_plan
from bench.speed.training.trainings import Setting, Steps
from d4explain.gnn.device import CPU_ACTIVATION_BYTES
from models.diffusion.denoiser import INPUT_PLANES, NOISE_FEATURES

torch.set_num_threads(1)

TINY = Setting(hidden=6, blocks=2, nodes=8, graphs=5)


def operations_of_a_step(setting: Setting, features: int) -> int:
    """Expected operations: forward, and backward for both factors except the inputs."""
    hidden, batch = setting.hidden, setting.batch
    pairs, rows = batch * setting.nodes**2, batch * setting.nodes
    maps = 5 * hidden**2 * pairs  # three read the state, one the paths, one is the last
    paths = hidden * batch * setting.nodes**3
    head = hidden**2 * pairs + hidden * pairs
    noise = hidden**2 * batch
    inputs = INPUT_PLANES * hidden * pairs + 2 * features * hidden * rows
    inputs += NOISE_FEATURES * hidden * batch
    return 2 * (3 * (setting.blocks * (maps + paths) + head + noise) + 2 * inputs)


@pytest.mark.parametrize(
    "setting", [TINY, Setting(hidden=64, blocks=1, nodes=32, graphs=20)], ids=["one", "passes"]
)
def test_every_product_of_a_step_is_recorded(setting: Setting) -> None:
    steps = Steps(setting.training(0))
    features = setting.graphs_of_size(0)[0].features.shape[1]
    counted = sum(product.operations for product in steps.products)
    assert counted == operations_of_a_step(setting, features)
    plane = 4 * setting.hidden * setting.nodes**2
    passes = -(-setting.graphs // (CPU_ACTIVATION_BYTES // plane))
    widest = max(product.right.shape[-1] for product in steps.products)
    assert widest == setting.graphs * setting.nodes**2 // passes


def test_step_uses_the_batch_size_of_the_setting() -> None:
    setting = Setting(hidden=4, blocks=1, nodes=6, graphs=12, levels=3, recipe="paper")
    for with_gnn in (False, True):
        training = setting.training(0, with_gnn=with_gnn)
        products = products_of(lambda: next(training.run()))  # noqa: B023 — called at once
        pairs = 12 * 3 * 6**2
        assert any(product.right.shape[-1] == pairs for product in products)
    progress = next(training.run())
    assert progress.loss_cf is not None


def test_replayed_products_equal_the_recorded_ones() -> None:
    left, right = torch.rand(3, 4), torch.rand(5, 4)
    batch = torch.rand(2, 3, 3)

    def computation() -> None:
        torch.addmm(torch.zeros(3, 5), left, right.T)
        torch.bmm(batch, batch.mT)

    recorded = products_of(computation)
    assert [product.operations for product in recorded] == [2 * 3 * 4 * 5, 2 * 2 * 3 * 3 * 3]
    assert recorded[0].right.strides == (1, 4)
    assert products_of(ProductReplay(recorded)) == recorded
    with pytest.raises(NotImplementedError, match="mv"):
        products_of(lambda: left @ torch.rand(4))


def test_timing_is_interleaved() -> None:
    calls: list[str] = []
    fast, slow = fastest_times(
        lambda: calls.append("fast"), lambda: (calls.append("slow"), sum(range(10**5))), rounds=3
    )
    assert calls == ["fast", "slow"] * 4
    assert fast < slow


@pytest.mark.parametrize("power", [0.5, 2.0, 3.0])
def test_growth_exponent_of_a_power_is_that_power(power: float) -> None:
    sizes = [10, 20, 50]
    assert growth_exponent(sizes, [7 * size**power for size in sizes]) == pytest.approx(power)


def test_step_cost_is_measured_in_a_separate_process(
    capsys: pytest.CaptureFixture[str],
) -> None:
    setting = json.dumps({"hidden": 4, "blocks": 1, "nodes": 6, "graphs": 3})
    peak.main([setting, "0", "1", "1"])
    cost = peak.StepCost(**json.loads(capsys.readouterr().out))
    assert cost.ratio > 1  # with the GNN and everything else
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    assert 0.5 * resident < cost.peak_bytes


def test_benchmark_measures_the_requested_figures() -> None:
    assert "steps" in SPEED_BENCHMARKS
    assert (DEFAULT.hidden, DEFAULT.nodes, DEFAULT.batch, DEFAULT.blocks) == (64, 30, 24, 4)
    assert (PAPER.hidden, PAPER.nodes, PAPER.batch, PAPER.blocks) == (64, 35, 320, 6)


class SlowingClock:
    """Runs three times as fast at first, so that the estimated step count is too low."""

    def __init__(self, until: float) -> None:
        self._until = until
        self._now = 0.0
        self._last_read = time.process_time()

    def __call__(self) -> float:
        before, self._last_read = self._last_read, time.process_time()
        self._now += (self._last_read - before) * (3 if self._now < self._until else 1)
        return self._now


def test_training_lasts_at_least_the_budget() -> None:
    training = learning.train_for(1.5, 0, SlowingClock(until=0.15))
    assert training.seconds >= 1.5
    assert training.auc is not None


@pytest.mark.slow
def test_whole_benchmark_on_tiny_networks() -> None:
    paper = Setting(hidden=6, blocks=2, nodes=8, graphs=4, levels=3, recipe="paper")
    plan = Plan(2, 1, 1.0, TINY, paper, hidden=(4, 6), nodes=(6, 12), graphs=(2, 8))
    progress: list[tuple[int, int]] = []
    section = measure_plan(plan, 0, lambda _, done, total: progress.append((done, total)))
    assert progress[0][0] == 0
    assert progress[-1][0] == progress[-1][1] == len(progress) - 1
    figures = section.figures
    ratios = (figures.step_over_matmul, figures.full_step_over_matmul)
    for ratio in (*ratios, figures.paper_step_over_matmul):
        assert ratio > 1  # tiny products: most of the time is overhead
    assert figures.trained_detection_auc is not None
    assert 0.4 < figures.trained_detection_auc <= 1
    assert figures.trained_seconds >= plan.seconds
    assert figures.paper_step_peak_bytes > 50e6  # a process with torch
    steps, sizes, _ = section.tables
    assert [row[0] for row in steps.rows] == [TINY.description, TINY.description, paper.description]
    assert len(sizes.rows) == 4
    assert all(len(row) == len(table.columns) for table in section.tables for row in table.rows)
