"""Train a denoiser within a budget of CPU seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from bench.progress import OnProgress
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.recipes import PaperRecipe, Recipe
from models.training.make_trainer import make_trainer

_CPU = torch.device("cpu")
_TIMED_STEPS = 20


class TrainedDenoiser(NamedTuple):
    denoiser: EdgeDenoiser
    seconds: float  # CPU time of the training; the trial steps do not count


def train_within(
    budget: float,
    reference: Sequence[Graph],
    gnn: Gnn,
    recipe_of: Callable[[int | None], Recipe | PaperRecipe],
    *,
    seed: int,
    label: str,
    on_progress: OnProgress,
) -> TrainedDenoiser:
    """Time a few steps, then train for as many steps as the budget allows.

    `recipe_of` returns the recipe with a number of steps, or with its default for None.
    """
    trial = make_trainer(reference, gnn, recipe_of(None), seed=seed, device=_CPU)
    # CPU time, so that other load does not shorten the training.
    started = time.process_time()
    *_, last = trial.run(
        until=_TIMED_STEPS, should_stop=lambda: time.process_time() - started > budget / 10
    )
    steps = max(1, round(budget * last.step / (time.process_time() - started)))
    trainer = make_trainer(reference, gnn, recipe_of(steps), seed=seed, device=_CPU)
    started = time.process_time()
    for last in trainer.run():
        on_progress(label, last.step, steps)
    return TrainedDenoiser(trainer.denoiser(), time.process_time() - started)
