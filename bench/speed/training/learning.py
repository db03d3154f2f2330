"""What the default denoiser learns in a while, and how many graphs it sees.

`PYTHONPATH=CHECKOUT python -P bench/speed/training/learning.py SECONDS SEED` prints a line of JSON
about the `models` of that checkout: code of another day, on the same data. So nothing else is
imported.
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
_TRIED = 0.1  # of the time, to see how many steps fill it
_SPARE = 1.05  # of the steps that should fill it: a training ends when all are taken


@dataclass(frozen=True)
class Learnt:
    seconds: float
    graphs_per_second: float
    auc: float | None  # of telling flipped pairs from others, on fresh graphs


def learnt(budget: float, seed: int, clock: Callable[[], float] = time.process_time) -> Learnt:
    """On L_dist and generated BA-3Motif graphs, for at least so many seconds.

    The learning rate falls to zero with the steps, so their number has to fit the time: a training
    that was too short, because the machine has become faster, is done again with more.
    """
    generator = torch.Generator().manual_seed(seed)
    graphs = ba3motif(300, generator).graphs
    fresh = ba3motif(60, generator).graphs
    recipe = replace(recipe_for(Objective.COUNTERFACTUAL, alpha=0.0), effect_weight=0.0, patience=0)
    training = Trainer(graphs, None, recipe, seed=seed, device=_CPU)
    began = clock()
    steps = sum(1 for _ in training.run(should_stop=lambda: clock() - began > _TRIED * budget))
    seconds = clock() - began
    while seconds < budget:
        steps = max(1, round(_SPARE * steps * budget / seconds))
        training = Trainer(graphs, None, replace(recipe, steps=steps), seed=seed, device=_CPU)
        began = clock()
        for _ in training.run():
            pass
        seconds = clock() - began
    auc = detection_auc(
        training.denoiser(), fresh, generator, device=_CPU, pair_budget=recipe.pair_budget
    )
    return Learnt(seconds, steps * recipe.batch_graphs / seconds, auc)


def main(arguments: list[str]) -> None:
    budget, seed = arguments
    torch.set_num_threads(1)
    keep_freed_memory = getattr(device, "keep_freed_memory", None)  # older code has no such thing
    if keep_freed_memory is not None:
        keep_freed_memory()
    print(json.dumps(asdict(learnt(float(budget), int(seed)))))


if __name__ == "__main__":
    main(sys.argv[1:])
