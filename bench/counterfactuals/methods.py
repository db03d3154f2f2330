"""The compared methods: ours, its ablations, the paper's sampler and plain searches.

Each ablation differs from `d4` in one respect:

- `d4_no_denoiser`: same search and selection, but plausibilities are assigned to random pairs, and
  no effects are predicted, so all pairs are tried.
- `d4_slopes`: the GNN's gradients select the pairs to try.
- `d4_no_pruning`: flips are not pruned.
- `d4_effect_only`: the denoiser is trained for its effect head alone, without `L_dist`.
- `search`: no denoiser and no training, as the explainer `search`.

`believable` has to convince the GNN and its selection witnesses, and leaves only patterns of the
data. It uses no denoiser; a request with one gets the same answers. Its ablations:

- `believable_any_pattern`: without the rule on patterns.
- `believable_any_structure`: rings and components do not count.
- `believable_single_edits`: no moved or swapped edges.
- `believable_3_witnesses`: three witnesses of one architecture.
- `believable_no_witnesses`: the GNN alone, with the rule on patterns.

`…_purified` and `…_typical` choose among the alternatives of a method by the denoiser (`criteria`).

`d4_paper` is the paper's method as printed, except that it takes the smallest flip among a hundred
graphs sampled from its edge probabilities. `d4_paper_one_sample` draws one graph;
`d4_paper_threshold` and `d4_paper_ranked` decide edges otherwise
(`models.counterfactual.paper.proposals.Decision`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

import torch

from bench.counterfactuals.baselines import BaselineOutcome, greedy, random_edits
from bench.counterfactuals.instances import CPU, EditableInstance, deletion_rules
from bench.paper.sizes import affordable_recipe
from d4explain.gnn.network import Gnn
from models.counterfactual.believable.search import BelievableConfig
from models.counterfactual.edit_ranking import EffectSource
from models.counterfactual.explain import CounterfactualConfig, explain
from models.counterfactual.panel import Panel
from models.counterfactual.paper.proposals import Decision, PaperSampling
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.recipes import Objective, PaperRecipe, Recipe, recipe_for
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
    EFFECT_ONLY = "effect_only"  # ours without `L_dist`
    PAPER = "paper"

    def recipe(self, dataset: str, steps: int | None = None) -> Recipe | PaperRecipe:
        """None keeps the recipe's steps; the paper's recipe has an affordable size."""
        if self is DenoiserKind.PAPER:
            return replace(affordable_recipe(dataset), steps=steps)
        recipe = recipe_for(Objective.COUNTERFACTUAL, steps=steps)
        return replace(recipe, learns_distribution=self is DenoiserKind.OURS)


@dataclass(frozen=True)
class DiffusionMethod:
    denoiser: DenoiserKind | None  # None searches without one
    config: CounterfactualConfig


@dataclass(frozen=True)
class BelievableMethod:
    only_seen: bool = True
    keeps_structure: bool = True
    compound_moves: bool = True
    witnesses: int | None = None  # only the first ones; None means all

    @property
    def config(self) -> CounterfactualConfig:
        return CounterfactualConfig(
            alternatives=ALTERNATIVES,
            aim="believable",
            believable=self._search,
        )

    @property
    def _search(self) -> BelievableConfig:
        search = BelievableConfig(compound_moves=self.compound_moves)
        return search if self.keeps_structure else replace(search, structure_weight=0)

    def panel(self, whole: Panel) -> Panel:
        selection = whole.selection[: self.witnesses]
        return replace(whole, selection=selection, only_seen=self.only_seen)


class Criterion(Enum):
    """What chooses among a method's alternatives; `criteria` measures it."""

    PURIFICATION = "purification"
    TYPICALITY = "typicality"


@dataclass(frozen=True)
class ChosenMethod:
    """The alternatives of another method, the best by a criterion first."""

    base: str
    criterion: Criterion
    base_trains_denoiser: bool = True


def paper_config(sampling: PaperSampling) -> CounterfactualConfig:
    return CounterfactualConfig(alternatives=ALTERNATIVES, sampler="paper", paper=sampling)


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
    "d4_no_pruning": DiffusionMethod(
        DenoiserKind.OURS, CounterfactualConfig(alternatives=ALTERNATIVES, prune=False)
    ),
    "d4_effect_only": DiffusionMethod(
        DenoiserKind.EFFECT_ONLY, CounterfactualConfig(alternatives=ALTERNATIVES)
    ),
    "search": DiffusionMethod(None, CounterfactualConfig(alternatives=ALTERNATIVES)),
    "d4_paper": DiffusionMethod(DenoiserKind.PAPER, paper_config(PaperSampling())),
    "d4_paper_one_sample": DiffusionMethod(
        DenoiserKind.PAPER, paper_config(PaperSampling(draws=1))
    ),
    "d4_paper_threshold": DiffusionMethod(
        DenoiserKind.PAPER, paper_config(PaperSampling(decision=Decision.THRESHOLD))
    ),
    "d4_paper_ranked": DiffusionMethod(
        DenoiserKind.PAPER, paper_config(PaperSampling(decision=Decision.RANKED))
    ),
}
BELIEVABLE_METHODS = {
    "believable": BelievableMethod(),
    "believable_any_pattern": BelievableMethod(only_seen=False),
    "believable_any_structure": BelievableMethod(keeps_structure=False),
    "believable_single_edits": BelievableMethod(compound_moves=False),
    "believable_3_witnesses": BelievableMethod(witnesses=3),
    "believable_no_witnesses": BelievableMethod(witnesses=0),
}
CHOSEN_METHODS = {
    "d4_purified": ChosenMethod("d4", Criterion.PURIFICATION),
    "d4_typical": ChosenMethod("d4", Criterion.TYPICALITY),
    "believable_purified": ChosenMethod("believable", Criterion.PURIFICATION, False),
    "believable_typical": ChosenMethod("believable", Criterion.TYPICALITY, False),
}
PLAIN_METHODS = ("greedy", "greedy_delete", "random")
METHODS = (*DIFFUSION_METHODS, *BELIEVABLE_METHODS, *CHOSEN_METHODS, *PLAIN_METHODS)
# Those of `python -m bench believable`, as far as the report shows them.
BELIEVABILITY = (
    *("believable", "believable_any_pattern", "believable_any_structure"),
    "believable_single_edits",
    *("believable_3_witnesses", "believable_no_witnesses"),
    *("d4", "d4_no_denoiser", "d4_slopes", "search", "greedy", "random"),
)


def diffusion_method(
    gnn: Gnn,
    denoiser: EdgeDenoiser | None,
    config: CounterfactualConfig,
    panel: Panel | None = None,
) -> Method:
    def method(instance: EditableInstance, seed: int) -> Answer:
        outcome = explain(
            gnn,
            denoiser,
            instance.graph,
            instance.rules,
            config,
            seed=seed,
            device=CPU,
            panel=panel,
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
