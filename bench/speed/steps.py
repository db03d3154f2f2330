"""Training steps and denoiser passes against their bare matrix products.

A step is all that training does for a batch: drawing it and its noise, the forward and the backward
pass, clipping, Adam and the running average. Products are recorded from such a step on L_dist.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from bench.speed.peak import StepCost, step_cost
from bench.speed.section import Say, Section, Table
from bench.speed.timing import clock, shortest
from bench.speed.trainings import CPU, Setting, Steps
from models.detection import detection_auc
from models.device import keep_freed_memory
from models.diffusion import NoiseLevel
from models.graphs import to_dense
from models.recipes import Objective, recipe_for
from models.synthetic import ba3motif
from models.training import Trainer

DEFAULT = Setting(hidden=64, blocks=4, nodes=30, graphs=24)
PAPER = Setting(hidden=64, blocks=6, nodes=35, graphs=32, levels=10, recipe="paper")
HIDDEN = (32, 64, 128)
NODES = (20, 30, 50, 100)
GRAPHS = (6, 12, 24, 48)
MEGABYTE = 1e6
_WORDS = "training steps over bare products"


@dataclass(frozen=True)
class _PerGraph:
    """Milliseconds per graph and noise level."""

    setting: Setting
    forward: float
    step: float
    products: float


def measure(short: bool, seed: int, say: Say) -> Section:
    keep_freed_memory()  # as workers do
    rounds = 3 if short else 9
    settings = [
        Setting(hidden, blocks=4, nodes=nodes, graphs=_affordable(nodes))
        for hidden in HIDDEN
        for nodes in NODES
    ]
    parts = len(settings) + len(GRAPHS) + 4
    say(_WORDS, 0, parts)
    default = Steps(DEFAULT.training(seed))
    step, bare = shortest(default, default.bare, rounds=5 * rounds)
    say(_WORDS, 1, parts)
    costs = []
    for setting, few in ((DEFAULT, rounds), (PAPER, 1 if short else 3)):
        costs.append(step_cost(setting, seed, few))
        say(_WORDS, 1 + len(costs), parts)
    grid = []
    for setting in settings:
        grid.append(_per_graph(setting, seed, rounds))
        say(_WORDS, 3 + len(grid), parts)
    by_count = []
    for graphs in GRAPHS:
        by_count.append(_per_graph(replace(DEFAULT, graphs=graphs), seed, rounds))
        say(_WORDS, 3 + len(grid) + len(by_count), parts)
    learnt = _learnt(15 if short else 60, seed)
    say(_WORDS, parts, parts)
    full, paper = costs
    wide = [one for one in grid if one.setting.hidden == DEFAULT.hidden]
    figures = {
        "step_over_matmul": step / bare,
        "full_step_over_matmul": full.ratio,
        "step_peak_bytes": float(full.peak_bytes),
        "paper_step_peak_bytes": float(paper.peak_bytes),
        "paper_step_over_matmul": paper.ratio,
        "step_exponent_nodes": growth_exponent(
            [one.setting.nodes for one in wide], [one.step for one in wide]
        ),
        "forward_exponent_nodes": growth_exponent(
            [one.setting.nodes for one in wide], [one.forward for one in wide]
        ),
        "step_exponent_graphs": growth_exponent(
            GRAPHS, [one.step * one.setting.graphs for one in by_count]
        ),
        "trained_graphs_per_second": learnt.graphs_per_second,
        "trained_detection_auc": learnt.auc,
        "trained_seconds": learnt.seconds,
        "step_threads": float(torch.get_num_threads()),
    }
    return Section(figures, (_ratios(step, bare, full, paper), _sizes(grid), _learning(learnt)))


def _affordable(nodes: int) -> int:
    """Graphs of a batch of the default recipe."""
    recipe = recipe_for(Objective.COUNTERFACTUAL)
    return min(recipe.batch_graphs, recipe.pair_budget // nodes**2)


def _per_graph(setting: Setting, seed: int, rounds: int) -> _PerGraph:
    training = setting.training(seed)
    steps = Steps(training)
    denoiser = training.denoiser()
    graphs = to_dense(setting.subjects(seed)[: setting.graphs])
    noise = NoiseLevel.symmetric(torch.full((graphs.count,), 0.1))

    def forward() -> None:
        with torch.inference_mode():
            denoiser(graphs, noise)

    times = shortest(forward, steps, steps.bare, rounds=rounds)
    return _PerGraph(setting, *(1e3 * seconds / setting.batch for seconds in times))


@dataclass(frozen=True)
class _Learnt:
    seconds: float
    graphs_per_second: float
    auc: float | None  # of telling flipped pairs from others, on fresh graphs


def _learnt(budget: float, seed: int) -> _Learnt:
    """The default denoiser on L_dist and generated BA-3Motif graphs, for so many seconds."""
    generator = torch.Generator().manual_seed(seed)
    graphs = ba3motif(300, generator).graphs
    fresh = ba3motif(60, generator).graphs
    recipe = replace(recipe_for(Objective.COUNTERFACTUAL, alpha=0.0), effect_weight=0.0, patience=0)
    began = clock()
    trial = Trainer(graphs, None, recipe, seed=seed, device=CPU)
    tried = sum(1 for _ in trial.run(should_stop=lambda: clock() - began > budget / 10))
    steps = max(1, round(budget * tried / (clock() - began)))
    training = Trainer(graphs, None, replace(recipe, steps=steps), seed=seed, device=CPU)
    began = clock()
    taken = sum(1 for _ in training.run(should_stop=lambda: clock() - began > budget))
    seconds = clock() - began
    auc = detection_auc(
        training.denoiser(), fresh, generator, device=CPU, pair_budget=recipe.pair_budget
    )
    return _Learnt(seconds, taken * recipe.batch_graphs / seconds, auc)


def growth_exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """The slope of log time over log size, by least squares."""
    across = [math.log(size) for size in sizes]
    up = [math.log(time) for time in times]
    middle, level = sum(across) / len(across), sum(up) / len(up)
    rise = sum((x - middle) * (y - level) for x, y in zip(across, up, strict=True))
    return rise / sum((x - middle) ** 2 for x in across)


def _ratios(step: float, bare: float, full: StepCost, paper: StepCost) -> Table:
    columns = ("step", "losses", "s", "s of products", "ratio", "peak MB")
    rows: list[tuple[str | float, ...]] = [(DEFAULT.words, "L_dist", step, bare, step / bare, "-")]
    for setting, losses, cost in (
        (DEFAULT, "all, with the GNN", full),
        (PAPER, "all, with the GNN", paper),
    ):
        times = (cost.seconds, cost.products_seconds, cost.ratio)
        rows.append((setting.words, losses, *times, cost.peak_bytes / MEGABYTE))
    title = "training steps and the bare products of the denoiser on L_dist"
    return Table(title, columns, tuple(rows))


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


def _learning(learnt: _Learnt) -> Table:
    auc = "-" if learnt.auc is None else learnt.auc
    return Table(
        "the default denoiser on BA-3Motif, L_dist",
        ("seconds", "graphs/s", "flip-detection AUC"),
        ((f"{learnt.seconds:.0f}", learnt.graphs_per_second, auc),),
    )
