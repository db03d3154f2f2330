"""Compare training steps and denoiser passes with their matrix products.

A step covers all work for a batch: sampling it and its noise, forward and backward pass, clipping,
Adam and the weight average. The products are recorded from such a step on L_dist.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from bench.progress import OnProgress
from bench.speed.section import Figures, Section, Table
from bench.speed.timing import clock, fastest_times
from bench.speed.training.learning import LearningResult, train_for
from bench.speed.training.peak import StepCost, step_cost
from bench.speed.training.trainings import Setting, Steps
from d4explain.gnn.device import keep_freed_memory
from d4explain.gnn.graphs import to_dense
from models.diffusion.noise import NoiseLevel
from models.diffusion.recipes import Objective, recipe_for

DEFAULT = Setting(hidden=64, blocks=4, nodes=30, graphs=24)
PAPER = Setting(hidden=64, blocks=6, nodes=35, graphs=32, levels=10, recipe="paper")
MEGABYTE = 1e6
_PROGRESS_LABEL = "training steps"
_RATIOS = "Training steps and the matrix products of the denoiser on L_dist"
_COLUMNS = ("step", "losses", "s", "products s", "ratio", "peak MB")


@dataclass(frozen=True)
class Plan:
    rounds: int
    paper_rounds: int
    seconds: float  # length of the training whose result is measured
    default: Setting = DEFAULT
    paper: Setting = PAPER
    hidden: tuple[int, ...] = (32, 64, 128)
    nodes: tuple[int, ...] = (20, 30, 50, 100)
    graphs: tuple[int, ...] = (6, 12, 24, 48)


@dataclass(frozen=True)
class _PerGraph:
    """Milliseconds per graph and noise level."""

    setting: Setting
    forward: float
    step: float
    products: float


@dataclass(frozen=True)
class StepFigures(Figures):
    step_over_matmul: float
    full_step_over_matmul: float
    step_peak_bytes: float
    paper_step_peak_bytes: float
    paper_step_over_matmul: float
    step_exponent_nodes: float
    forward_exponent_nodes: float
    step_exponent_graphs: float
    trained_graphs_per_second: float
    trained_detection_auc: float | None
    trained_seconds: float
    step_threads: float


def measure(short: bool, seed: int, on_progress: OnProgress) -> Section[StepFigures]:
    plan = Plan(3, paper_rounds=1, seconds=15) if short else Plan(9, paper_rounds=3, seconds=60)
    return measure_plan(plan, seed, on_progress)


def measure_plan(plan: Plan, seed: int, on_progress: OnProgress) -> Section[StepFigures]:
    keep_freed_memory()  # like the workers
    sizes = [
        Setting(hidden, plan.default.blocks, nodes, graphs=_affordable(nodes))
        for hidden in plan.hidden
        for nodes in plan.nodes
    ]
    counts = [replace(plan.default, graphs=graphs) for graphs in plan.graphs]
    total = len(sizes) + len(counts) + 4
    done = 0

    def report_stage() -> None:
        nonlocal done
        on_progress(_PROGRESS_LABEL, done, total)
        done += 1

    report_stage()
    steps = Steps(plan.default.training(seed))
    step, products = fastest_times(steps, steps.replay_products, rounds=5 * plan.rounds)
    report_stage()
    full = step_cost(plan.default, seed, plan.rounds)
    report_stage()
    paper = step_cost(plan.paper, seed, plan.paper_rounds)
    report_stage()
    grid = []
    for setting in sizes:
        grid.append(_per_graph(setting, seed, plan.rounds))
        report_stage()
    by_count = []
    for setting in counts:
        by_count.append(_per_graph(setting, seed, plan.rounds))
        report_stage()
    training = train_for(plan.seconds, seed, clock)
    report_stage()
    default_width = [one for one in grid if one.setting.hidden == plan.default.hidden]
    nodes = [one.setting.nodes for one in default_width]
    figures = StepFigures(
        step_over_matmul=step / products,
        full_step_over_matmul=full.ratio,
        step_peak_bytes=float(full.peak_bytes),
        paper_step_peak_bytes=float(paper.peak_bytes),
        paper_step_over_matmul=paper.ratio,
        step_exponent_nodes=growth_exponent(nodes, [one.step for one in default_width]),
        forward_exponent_nodes=growth_exponent(nodes, [one.forward for one in default_width]),
        step_exponent_graphs=growth_exponent(
            plan.graphs, [one.step * one.setting.graphs for one in by_count]
        ),
        trained_graphs_per_second=training.graphs_per_second,
        trained_detection_auc=training.auc,
        trained_seconds=training.seconds,
        step_threads=float(torch.get_num_threads()),
    )
    rows = (
        _row(plan.default, "L_dist", step, products),
        _row(plan.default, "all, with the GNN", full.seconds, full.products_seconds, full),
        _row(plan.paper, "all, with the GNN", paper.seconds, paper.products_seconds, paper),
    )
    return Section(figures, (Table(_RATIOS, _COLUMNS, rows), _sizes(grid), _learning(training)))


def _affordable(nodes: int) -> int:
    """Batch size of the default recipe."""
    recipe = recipe_for(Objective.COUNTERFACTUAL)
    return min(recipe.batch_graphs, recipe.pair_budget // nodes**2)


def _per_graph(setting: Setting, seed: int, rounds: int) -> _PerGraph:
    training = setting.training(seed)
    steps = Steps(training)
    denoiser = training.denoiser()
    graphs = to_dense(setting.graphs_of_size(seed)[: setting.graphs])
    noise = NoiseLevel.symmetric(torch.full((graphs.count,), 0.1))

    def forward() -> None:
        with torch.inference_mode():
            denoiser(graphs, noise)

    times = fastest_times(forward, steps, steps.replay_products, rounds=rounds)
    return _PerGraph(setting, *(1e3 * seconds / setting.batch for seconds in times))


def growth_exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """Least-squares slope of log time over log size."""
    xs = [math.log(size) for size in sizes]
    ys = [math.log(time) for time in times]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return covariance / sum((x - mean_x) ** 2 for x in xs)


def _row(
    setting: Setting, losses: str, step: float, products: float, cost: StepCost | None = None
) -> tuple[str | float, ...]:
    peak = "-" if cost is None else cost.peak_bytes / MEGABYTE
    return setting.description, losses, step, products, step / products, peak


def _sizes(grid: Sequence[_PerGraph]) -> Table:
    columns = ("hidden", "N", "graphs", "forward", "training", "products", "training / products")
    rows = tuple(
        (
            str(one.setting.hidden),
            float(one.setting.nodes),
            float(one.setting.graphs),
            one.forward,
            one.step,
            one.products,
            one.step / one.products,
        )
        for one in grid
    )
    return Table("ms per graph and noise level, 4 blocks", columns, rows)


def _learning(training: LearningResult) -> Table:
    return Table(
        "Default denoiser on BA-3Motif, L_dist",
        ("seconds", "graphs/s", "flip-detection AUC"),
        ((f"{training.seconds:.0f}", training.graphs_per_second, training.auc),),
    )
