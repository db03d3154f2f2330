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

The explainers of `models.explainers` have their names there.

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

from bench.counterfactuals.instances import CPU, EditableInstance, deletion_rules
from bench.paper.sizes import affordable_recipe
from d4explain.gnn.network import Gnn, predict
from models.counterfactual.believable.search import BelievableConfig
from models.counterfactual.edit_ranking import EffectSource
from models.counterfactual.explain import CounterfactualConfig, explain
from models.counterfactual.oracle import CounterfactualOracle, FlipGoal
from models.counterfactual.panel import Panel
from models.counterfactual.paper.proposals import Decision, PaperSampling
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.recipes import Objective, PaperRecipe, Recipe, recipe_for
from models.explainers.catalogue import EXPLAINERS
from models.explainers.curve import counterfactual_curve
from models.explainers.interface import Explainer
from models.graphs.edits import EditSpace
from models.metrics.scores import fidelity

ALTERNATIVES = 5
Pair = tuple[int, int]
Edits = tuple[Pair, ...]


@dataclass(frozen=True)
class Step:
    """One edited graph of an explainer's curve, whether or not it flips the GNN."""

    edits: int
    fidelity: float


@dataclass(frozen=True)
class Answer:
    """A method's verified edit sets for one graph, best first, and their cost."""

    found: tuple[Edits, ...]
    gnn_evaluations: int
    gnn_gradients: int
    steps: tuple[Step, ...] = ()  # by number of edits; methods that return flips only have none


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
# Of `models.explainers`; `greedy_delete` is `greedy` that only removes edges.
DELETES_ONLY = {"greedy_delete": "greedy"}
EXPLAINER_METHODS = (*EXPLAINERS, *DELETES_ONLY)
METHODS = (*DIFFUSION_METHODS, *BELIEVABLE_METHODS, *CHOSEN_METHODS, *EXPLAINER_METHODS)
# Those of `python -m bench counterfactual`, unless it names some; the tables of the paper have all.
SEARCHES = tuple(name for name in METHODS if name in ("greedy", "random") or name not in EXPLAINERS)
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


def explainer_method(gnn: Gnn, explainer: Explainer, *, adds: bool = True) -> Method:
    """The smallest flip on the explainer's curve, and the fidelity along the curve."""

    def method(instance: EditableInstance, seed: int) -> Answer:
        rules = instance.rules if adds else deletion_rules(instance)
        space = EditSpace.of(instance.graph, rules)
        goal = FlipGoal(int(predict(gnn, [instance.graph], CPU)[0].argmax()), None)
        oracle = CounterfactualOracle(gnn, space, goal, CPU)
        generator = torch.Generator().manual_seed(seed)
        curve = counterfactual_curve(oracle, explainer.explain(oracle, generator), generator)
        steps = tuple(
            Step(len(step.edits), fidelity(curve.before, step.probabilities))
            for step in curve.steps
        )
        flip = curve.smallest_flip
        found: tuple[Edits, ...] = ()
        if flip is not None:
            ends = space.sources.tolist(), space.targets.tolist()
            found = (tuple((ends[0][pair], ends[1][pair]) for pair in flip.edits),)
        return Answer(found, oracle.evaluations + 1, oracle.gradient_count, steps)

    return method
