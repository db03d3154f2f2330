"""The compared methods: ours, its ablations, the paper's sampler and plain searches.

Each ablation differs from `d4` in one respect:

- `d4_no_denoiser`: same search and selection, but plausibilities and samples are assigned to random
  pairs, and no effects are predicted, so all pairs are tried.
- `d4_slopes`: the GNN's gradients select the pairs to try.
- `d4_no_lcf`: the denoiser is trained without the counterfactual loss (alpha = 0).
- `d4_no_guidance`: the beam search ignores plausibility.
- `d4_no_pruning`: flips are not pruned.
- `d4_one_sample`: one noisy graph, one sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import torch

from bench.counterfactuals.baselines import BaselineOutcome, greedy, random_edits
from bench.counterfactuals.instances import CPU, EditableInstance, deletion_rules
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
    """A method's verified edit sets for one graph, best first, and their cost."""

    found: tuple[Edits, ...]
    gnn_evaluations: int
    gnn_gradients: int


Method = Callable[[EditableInstance, int], Answer]  # instance, seed


class DenoiserKind(Enum):
    """The training recipe of the denoiser that a method needs."""

    OURS = "default"
    WITHOUT_LCF = "no_lcf"
    PAPER = "paper"

    def recipe(self, steps: int | None = None) -> Recipe:
        if self is DenoiserKind.WITHOUT_LCF:
            return recipe_for(Objective.COUNTERFACTUAL, steps=steps, alpha=0.0)
        return recipe_for(Objective.COUNTERFACTUAL, self.value, steps=steps)


@dataclass(frozen=True)
class DiffusionMethod:
    denoiser: DenoiserKind
    config: CounterfactualConfig


DIFFUSION_METHODS = {
    "d4": DiffusionMethod(DenoiserKind.OURS, CounterfactualConfig(alternatives=ALTERNATIVES)),
    "d4_no_denoiser": DiffusionMethod(
        DenoiserKind.OURS,
        CounterfactualConfig(alternatives=ALTERNATIVES, effect_source=EffectSource.NONE),
    ),
    "d4_slopes": DiffusionMethod(
        DenoiserKind.OURS,
        CounterfactualConfig(alternatives=ALTERNATIVES, effect_source=EffectSource.SLOPES),
    ),
    "d4_no_lcf": DiffusionMethod(
        DenoiserKind.WITHOUT_LCF, CounterfactualConfig(alternatives=ALTERNATIVES)
    ),
    "d4_no_guidance": DiffusionMethod(
        DenoiserKind.OURS,
        CounterfactualConfig(
            alternatives=ALTERNATIVES,
            search=SearchConfig(states_by_plausibility=0, plausibility_weight=0.0),
        ),
    ),
    "d4_no_pruning": DiffusionMethod(
        DenoiserKind.OURS, CounterfactualConfig(alternatives=ALTERNATIVES, prune=False)
    ),
    "d4_one_sample": DiffusionMethod(
        DenoiserKind.OURS,
        CounterfactualConfig(alternatives=ALTERNATIVES, proposals=Proposals((0.01,), 1, 1)),
    ),
    "d4_paper": DiffusionMethod(
        DenoiserKind.PAPER, CounterfactualConfig(alternatives=ALTERNATIVES, sampler="paper")
    ),
}
PLAIN_METHODS = ("greedy", "greedy_delete", "random")
METHODS = (*DIFFUSION_METHODS, *PLAIN_METHODS)


def diffusion_method(gnn: Gnn, denoiser: Denoiser, config: CounterfactualConfig) -> Method:
    def method(instance: EditableInstance, seed: int) -> Answer:
        outcome = explain(
            gnn, denoiser, instance.graph, instance.rules, config, seed=seed, device=CPU
        )
        found = tuple(
            tuple((edit.source, edit.target) for edit in answer.edits) for answer in outcome.found
        )
        return Answer(found, outcome.gnn_evaluations, outcome.gnn_gradients)

    return method


def plain_method(gnn: Gnn, name: str) -> Method:
    searches: dict[str, Callable[[EditableInstance, int], BaselineOutcome]] = {
        "greedy": lambda instance, _: greedy(gnn, instance.graph, instance.rules, device=CPU),
        "greedy_delete": lambda instance, _: greedy(
            gnn, instance.graph, deletion_rules(instance), device=CPU
        ),
        "random": lambda instance, seed: random_edits(
            gnn,
            instance.graph,
            instance.rules,
            generator=torch.Generator().manual_seed(seed),
            device=CPU,
        ),
    }
    search = searches[name]

    def method(instance: EditableInstance, seed: int) -> Answer:
        outcome = search(instance, seed)
        if outcome.graph is None:
            return Answer((), outcome.gnn_evaluations, 0)
        toggled = sorted(changed_pairs(instance.graph, outcome.graph))
        return Answer((tuple(toggled),), outcome.gnn_evaluations, 0)

    return method
