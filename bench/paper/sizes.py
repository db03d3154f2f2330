"""The largest network of each data set that makes 1,000 steps in 60 CPU minutes.

The paper's own sizes take days on a CPU. `python -m bench paper-sizes --keep` times steps of ever
smaller networks and saves every timing; `chosen_size` reads the saved choice. Batch size, alpha
and noise levels always are as printed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bench.data.splits import DataError
from bench.data.tasks import Task
from bench.gnns.target_gnns import TargetGnn
from bench.report.results_store import RESULTS
from models.diffusion.paper.recipe import PRINTED_SIZES, PaperRecipe, PrintedSize
from models.training.paper_trainer import PaperTrainer

PREFIX = "paper_sizes"  # of the result files
PRINTED_ANYWAY = ("tree_cycle",)  # the long run has the printed size, whatever it costs
STEPS, SECONDS = 1000, 3600.0
TIMED_STEPS = 3
# Smaller networks to try, largest first, as (hidden, blocks).
_SMALLER = ((128, 6), (96, 6), (64, 6), (48, 6), (32, 6), (32, 4), (24, 4), (16, 4))


def measure_sizes(task: Task, target: TargetGnn, seed: int) -> Iterator[dict[str, Any]]:
    """Time the printed network, then smaller ones, until one is affordable; rows to save."""
    printed = PRINTED_SIZES[task.name]
    for size in _candidates(printed):
        seconds = _seconds_per_step(task, target, size, seed)
        affordable = seconds * STEPS <= SECONDS
        chosen = affordable or task.name in PRINTED_ANYWAY
        yield {
            "dataset": task.name,
            "hidden": size.hidden,
            "blocks": size.blocks,
            "batch_graphs": size.batch_graphs,
            "alpha": size.alpha,
            "printed": size == printed,
            "seconds_per_step": seconds,
            "steps_per_epoch": recipe_of(size).steps_per_epoch(len(task.train.graphs)),
            "chosen": chosen,
        }
        if chosen:
            return


def chosen_size(dataset: str, folder: Path = RESULTS) -> PrintedSize:
    """The size that `paper-sizes` chose; the printed one if nothing is saved."""
    if dataset not in PRINTED_SIZES:
        known = ", ".join(PRINTED_SIZES)
        raise DataError(f"the paper prints no size for {dataset}; it does for {known}")
    if dataset in PRINTED_ANYWAY:
        return PRINTED_SIZES[dataset]
    file = folder / f"{PREFIX}-{dataset}.json"
    if not file.is_file():
        return PRINTED_SIZES[dataset]
    row = next(row for row in json.loads(file.read_text()) if row["chosen"])
    return PrintedSize(row["hidden"], row["blocks"], row["batch_graphs"], row["alpha"])


def affordable_recipe(dataset: str) -> PaperRecipe:
    """The recipe of the chosen size; the default one for sets that are not the paper's."""
    return recipe_of(chosen_size(dataset)) if dataset in PRINTED_SIZES else PaperRecipe()


def recipe_of(size: PrintedSize) -> PaperRecipe:
    return PaperRecipe(
        hidden=size.hidden,
        blocks=size.blocks,
        batch_graphs=size.batch_graphs,
        alpha=size.alpha,
    )


def _candidates(printed: PrintedSize) -> list[PrintedSize]:
    """The printed size and all smaller ones, largest first."""
    smaller = [
        replace(printed, hidden=hidden, blocks=min(blocks, printed.blocks))
        for hidden, blocks in _SMALLER
        if hidden <= printed.hidden
    ]
    return list(dict.fromkeys([printed, *smaller]))


def _seconds_per_step(task: Task, target: TargetGnn, size: PrintedSize, seed: int) -> float:
    """Mean CPU seconds of a few steps after the first, which also allocates memory."""
    trainer = PaperTrainer(
        task.train.graphs, target.gnn, recipe_of(size), seed=seed, device=torch.device("cpu")
    )
    # Small batches differ in size, so they need more steps for a mean.
    steps = max(TIMED_STEPS, 2 * 32 // size.batch_graphs)
    run = trainer.run()
    next(run)
    started = time.process_time()
    for _ in range(steps):
        next(run)
    return (time.process_time() - started) / steps
