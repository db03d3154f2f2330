"""The methods that are compared: ours, the paper's sampler, ours without each part, plain searches.

An ablation differs from `d4` in one thing:

- `d4_no_denoiser`: the same search and choice; plausibilities and samples, as many and as large,
  are dealt to random pairs. With nothing foretold about them, all pairs are tried.
- `d4_slopes`: the same, but the pairs to try are chosen by the GNN's own slopes.
- `d4_no_lcf`: the denoiser was trained without the counterfactual loss (alpha = 0).
- `d4_no_guidance`: the beam ignores plausibility.
- `d4_no_pruning`: flips are returned as they were found.
- `d4_one_sample`: one noisy graph, one draw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import torch

from bench.counterfactuals.baselines import BaselineOutcome, greedy, random_edits
from bench.counterfactuals.instances import CPU, Explained, delete_only
from d4explain.gnn.network import Gnn
from models.counterfactual.denoiser_proposals import Proposals
from models.counterfactual.edit_ranking import EffectSource
from models.counterfactual.explain import CounterfactualConfig, explain
from models.counterfactual.search_config import SearchConfig
from models.diffusion.denoiser import Denoiser
from models.diffusion.recipes import Objective, Recipe, recipe_for
from models.metrics.scores import changed_pairs

ALTERNATIVES = 5
Pair = tuple[int, int]
Edits = tuple[Pair, ...]


@dataclass(frozen=True)
class Answer:
    """What a method says about one graph: sets of toggled pairs, best first, each verified."""

    found: tuple[Edits, ...]
    gnn_evaluations: int
    gnn_gradients: int


Method = Callable[[Explained, int], Answer]  # instance, seed


class TrainedFor(Enum):
    """Which denoiser a method needs."""

    OURS = "default"
    WITHOUT_LCF = "no_lcf"
    PAPER = "paper"

    def recipe(self, steps: int | None = None) -> Recipe:
        if self is TrainedFor.WITHOUT_LCF:
            return recipe_for(Objective.COUNTERFACTUAL, steps=steps, alpha=0.0)
        return recipe_for(Objective.COUNTERFACTUAL, self.value, steps=steps)


@dataclass(frozen=True)
class Diffusion:
    denoiser: TrainedFor
    config: CounterfactualConfig


DIFFUSION = {
    "d4": Diffusion(TrainedFor.OURS, CounterfactualConfig(alternatives=ALTERNATIVES)),
    "d4_no_denoiser": Diffusion(
        TrainedFor.OURS,
        CounterfactualConfig(alternatives=ALTERNATIVES, effect_source=EffectSource.NONE),
    ),
    "d4_slopes": Diffusion(
        TrainedFor.OURS,
        CounterfactualConfig(alternatives=ALTERNATIVES, effect_source=EffectSource.SLOPES),
    ),
    "d4_no_lcf": Diffusion(TrainedFor.WITHOUT_LCF, CounterfactualConfig(alternatives=ALTERNATIVES)),
    "d4_no_guidance": Diffusion(
        TrainedFor.OURS,
        CounterfactualConfig(
            alternatives=ALTERNATIVES,
            search=SearchConfig(states_by_plausibility=0, plausibility_weight=0.0),
        ),
    ),
    "d4_no_pruning": Diffusion(
        TrainedFor.OURS, CounterfactualConfig(alternatives=ALTERNATIVES, prune=False)
    ),
    "d4_one_sample": Diffusion(
        TrainedFor.OURS,
        CounterfactualConfig(alternatives=ALTERNATIVES, proposals=Proposals((0.01,), 1, 1)),
    ),
    "d4_paper": Diffusion(
        TrainedFor.PAPER, CounterfactualConfig(alternatives=ALTERNATIVES, sampler="paper")
    ),
}
PLAIN = ("greedy", "greedy_delete", "random")
METHODS = (*DIFFUSION, *PLAIN)


def diffusion_method(gnn: Gnn, denoiser: Denoiser, config: CounterfactualConfig) -> Method:
    def method(instance: Explained, seed: int) -> Answer:
        outcome = explain(
            gnn, denoiser, instance.graph, instance.rules, config, seed=seed, device=CPU
        )
        found = tuple(
            tuple((edit.source, edit.target) for edit in answer.edits) for answer in outcome.found
        )
        return Answer(found, outcome.gnn_evaluations, outcome.gnn_gradients)

    return method


def plain_method(gnn: Gnn, name: str) -> Method:
    searches: dict[str, Callable[[Explained, int], BaselineOutcome]] = {
        "greedy": lambda one, _: greedy(gnn, one.graph, one.rules, device=CPU),
        "greedy_delete": lambda one, _: greedy(gnn, one.graph, delete_only(one), device=CPU),
        "random": lambda one, seed: random_edits(
            gnn,
            one.graph,
            one.rules,
            generator=torch.Generator().manual_seed(seed),
            device=CPU,
        ),
    }
    search = searches[name]

    def method(instance: Explained, seed: int) -> Answer:
        outcome = search(instance, seed)
        if outcome.graph is None:
            return Answer((), outcome.gnn_evaluations, 0)
        toggled = sorted(changed_pairs(instance.graph, outcome.graph))
        return Answer((tuple(toggled),), outcome.gnn_evaluations, 0)

    return method
