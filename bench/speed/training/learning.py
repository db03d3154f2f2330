"""Measure what the default denoiser learns in a given time, and its training throughput.

`PYTHONPATH=CHECKOUT python -P bench/speed/training/learning.py SECONDS SEED` measures the `models`
of another checkout on the same data. This module therefore imports little else.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import torch

from bench.data.synthetic import ba3motif
from d4explain.gnn import device
from models.diffusion.recipes import Objective, recipe_for
from models.training.detection import detection_auc
from models.training.trainer import Trainer

_CPU = torch.device("cpu")
_TRIAL_SHARE = 0.1  # share of the budget for estimating the step count
_STEP_MARGIN = 1.05  # factor on the estimated step count


@dataclass(frozen=True)
class LearningResult:
    seconds: float
    graphs_per_second: float
    auc: float | None  # detection of flipped pairs on new graphs


def train_for(
    budget: float, seed: int, clock: Callable[[], float] = time.process_time
) -> LearningResult:
    """Train on L_dist and generated BA-3Motif graphs for at least `budget` seconds.

    The learning rate schedule needs the step count in advance. If the estimate was too low, the
    training is repeated with more steps.
    """
    generator = torch.Generator().manual_seed(seed)
    graphs = ba3motif(300, generator).graphs
    new_graphs = ba3motif(60, generator).graphs
    recipe = replace(recipe_for(Objective.COUNTERFACTUAL), predicts_effects=False, patience=0)
    training = Trainer(graphs, None, recipe, seed=seed, device=_CPU)
    started = clock()
    steps = sum(
        1 for _ in training.run(should_stop=lambda: clock() - started > _TRIAL_SHARE * budget)
    )
    seconds = clock() - started
    while seconds < budget:
        steps = max(1, round(_STEP_MARGIN * steps * budget / seconds))
        training = Trainer(graphs, None, replace(recipe, steps=steps), seed=seed, device=_CPU)
        started = clock()
        for _ in training.run():
            pass
        seconds = clock() - started
    auc = detection_auc(
        training.denoiser(), new_graphs, generator, device=_CPU, pair_budget=recipe.pair_budget
    )
    return LearningResult(seconds, steps * recipe.batch_graphs / seconds, auc)


def main(arguments: list[str]) -> None:
    budget, seed = arguments
    torch.set_num_threads(1)
    keep_freed_memory = getattr(device, "keep_freed_memory", None)  # absent in older checkouts
    if keep_freed_memory is not None:
        keep_freed_memory()
    print(json.dumps(asdict(train_for(float(budget), int(seed)))))


if __name__ == "__main__":
    main(sys.argv[1:])
