"""Recipes: the settings of a denoiser's training, apart from its data and its seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal, overload

from d4explain.gnn.graphs import Graph
from d4explain.gnn.spec import GnnSpec
from models.diffusion.denoiser import DenoiserShape
from models.diffusion.edge_denoiser import CLEAN_FLIP
from models.diffusion.objective import Objective
from models.diffusion.paper.recipe import PaperRecipe

__all__ = ["Objective", "PaperRecipe", "Recipe", "recipe_for"]

_TUNED_PAIRS = 435  # node pairs of a graph of 30 nodes, for which the noise was tuned
_NOISE_LOW = 0.004
_EFFECT_NOISE = 0.06


@dataclass(frozen=True)
class Recipe:
    """The defaults are the recipe `default` of the counterfactual objective.

    Fields differ between objectives, between sets of graphs, or between a request and the default.
    """

    objective: Objective = Objective.COUNTERFACTUAL
    # network
    hidden: int = 32
    blocks: int = 4
    predicts_effects: bool = True  # an effect head, trained with the GNN
    learns_distribution: bool = True  # False, for ablations, trains the effect head alone
    # noise
    noise_high: float = 0.4
    noise_scale: float = 1.0  # of the low noise levels, see `fitted`
    # optimisation
    steps: int = 1000
    learning_rate: float = 2e-3
    batch_graphs: int = 24
    patience: int = 2  # measurements in a row without a gain; 0 disables early stopping
    subgraph_share: float = 0.0  # share of the batches that are small connected subgraphs
    # memory: maximum number of padded node pairs of a batch, and of nodes of a graph
    pair_budget: int = 40_000
    max_nodes: int = 128

    def __post_init__(self) -> None:
        for field in ("hidden", "blocks", "steps", "batch_graphs"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} must be at least 1, got {getattr(self, field)}")
        if not 0 <= self.subgraph_share <= 1:
            raise ValueError(f"subgraph_share is a share in [0, 1], got {self.subgraph_share}")
        if not self.predicts_effects and not self.learns_distribution:
            raise ValueError("a recipe without L_dist and without an effect head trains nothing")
        if self.learning_rate <= 0:
            raise ValueError(f"learning_rate must be positive, got {self.learning_rate}")
        if not 0 < self.noise_scale <= 1 or not self.noise_low <= self.noise_high <= 0.5:
            raise ValueError(
                "noise_scale must be in (0, 1] and noise_high at least the lowest noise and at "
                f"most .5, got {self.noise_scale}, {self.noise_high}"
            )

    @property
    def noise_low(self) -> float:
        return _NOISE_LOW * self.noise_scale

    @property
    def effect_noise(self) -> float:
        """The effect head does not learn from noisier graphs."""
        return _EFFECT_NOISE * self.noise_scale

    @property
    def clean_flip(self) -> float:
        """The noise level at which a clean graph is read."""
        return CLEAN_FLIP * self.noise_scale

    def shape(
        self, features: int, *, marked: bool = False, gnn: GnnSpec | None = None
    ) -> DenoiserShape:
        """The shape of a denoiser for graphs with that many features, and for a GNN if given."""
        effect_gnn = gnn if self.predicts_effects else None
        return DenoiserShape(
            features=features,
            hidden=self.hidden,
            blocks=self.blocks,
            marked=marked,
            classes=effect_gnn.classes if effect_gnn else 0,
            clean_flip=self.clean_flip,
            gnn_width=effect_gnn.state_width if effect_gnn else 0,
        )

    def fitted(self, graphs: Sequence[Graph]) -> Recipe:
        """Scales the noise, so that as many pairs flip in large graphs as in graphs of 30 nodes."""
        if self.objective is Objective.CLASS:
            return self
        sizes = [min(graph.node_count, self.max_nodes) for graph in graphs]
        scale = min(1.0, _TUNED_PAIRS / max(1.0, median(size * (size - 1) / 2 for size in sizes)))
        return replace(self, noise_scale=scale)


_DEFAULT = Recipe()

_RECIPES: dict[tuple[Objective, str], Recipe | PaperRecipe] = {
    (Objective.COUNTERFACTUAL, "default"): _DEFAULT,
    (Objective.COUNTERFACTUAL, "paper"): PaperRecipe(),
    # Class explanations start from ER(N, 1/2), so the noise reaches 1/2.
    (Objective.CLASS, "default"): replace(
        _DEFAULT,
        objective=Objective.CLASS,
        predicts_effects=False,
        steps=500,
        subgraph_share=0.8,
        noise_high=0.5,
    ),
    (Objective.CLASS, "paper"): PaperRecipe(objective=Objective.CLASS, alpha=0.0),
}


@overload
def recipe_for(
    objective: Objective,
    name: Literal["default"] = "default",
    *,
    steps: int | None = None,
    hidden: int | None = None,
    blocks: int | None = None,
) -> Recipe: ...


@overload
def recipe_for(
    objective: Objective,
    name: str,
    *,
    steps: int | None = None,
    hidden: int | None = None,
    blocks: int | None = None,
    alpha: float | None = None,
) -> Recipe | PaperRecipe: ...


def recipe_for(
    objective: Objective,
    name: str = "default",
    *,
    steps: int | None = None,
    hidden: int | None = None,
    blocks: int | None = None,
    alpha: float | None = None,
) -> Recipe | PaperRecipe:
    """A recipe by name; None keeps the value of the recipe, and only `paper` has an alpha."""
    try:
        recipe = _RECIPES[objective, name]
    except KeyError:
        known = sorted({known for _, known in _RECIPES})
        raise ValueError(f"unknown recipe {name!r}; known recipes: {known}") from None
    sizes = {"steps": steps, "hidden": hidden, "blocks": blocks}
    changed = replace(recipe, **{key: value for key, value in sizes.items() if value is not None})  # type: ignore[arg-type]
    if alpha is None:
        return changed
    if not isinstance(changed, PaperRecipe):
        raise ValueError(f"the recipe {name!r} has no alpha; got {alpha}")
    return replace(changed, alpha=alpha)
