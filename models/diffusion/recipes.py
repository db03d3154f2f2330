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


@dataclass(frozen=True)
class Recipe:
    """The defaults are the recipe `default` of the counterfactual objective."""

    name: str = "default"
    objective: Objective = Objective.COUNTERFACTUAL
    # network
    hidden: int = 32
    blocks: int = 4
    # noise
    noise_low: float = 0.004
    noise_high: float = 0.4
    symmetric_share: float = 0.4
    clean_flip: float = CLEAN_FLIP  # the noise level at which a clean graph is read
    # losses
    alpha: float = 0.2  # L = L_dist + alpha·L_cf
    counterfactual_share: float = 0.25  # share of the steps, at the end, that have L_cf
    conditioned: bool = True  # L_cf trains only the half of each batch with the switch on
    temperature: float = 0.5  # of the Concrete sample, λ
    effect_weight: float = 1.0  # of the effect head's loss; 0 means no effect head
    effect_toggles: int = 32  # per graph, of edges and of absent pairs each
    effect_noise: float = 0.06  # the effect head does not learn from noisier graphs
    # optimisation
    steps: int = 1000
    learning_rate: float = 2e-3
    ema: float = 0.99  # 0 keeps the last weights
    batch_graphs: int = 24
    # early stopping: after this many measurements in a row without an improvement
    patience: int = 4  # 0 disables it
    validity_ratio: float = 0.1  # edits per edge that validity may use to flip a graph
    # class objective
    subgraph_share: float = 0.0  # share of the batches that are small connected subgraphs
    batch_subgraphs: int = 64
    subgraph_nodes: tuple[int, int] = (4, 12)
    # memory: maximum number of padded node pairs of a batch, and of nodes of a graph
    pair_budget: int = 40_000
    max_nodes: int = 128

    def __post_init__(self) -> None:
        for field in ("hidden", "blocks", "steps", "batch_graphs", "batch_subgraphs"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} must be at least 1, got {getattr(self, field)}")
        for field in ("counterfactual_share", "subgraph_share", "symmetric_share"):
            if not 0 <= getattr(self, field) <= 1:
                raise ValueError(f"{field} is a share in [0, 1], got {getattr(self, field)}")
        if not 0 <= self.ema < 1:
            raise ValueError(f"ema must be in [0, 1), got {self.ema}")
        if self.effect_weight < 0 or self.effect_toggles < 1:
            raise ValueError(
                "effect_weight must not be negative and effect_toggles must be at least 1, got "
                f"{self.effect_weight}, {self.effect_toggles}"
            )
        if self.alpha < 0 or self.learning_rate <= 0 or self.temperature <= 0:
            raise ValueError(
                "alpha must not be negative, learning_rate and temperature must be positive, "
                f"got {self.alpha}, {self.learning_rate}, {self.temperature}"
            )
        if not 0 < self.noise_low <= self.noise_high <= 0.5:
            raise ValueError(
                f"noise must be within (0, .5], got {self.noise_low} to {self.noise_high}"
            )

    def shape(
        self, features: int, *, marked: bool = False, gnn: GnnSpec | None = None
    ) -> DenoiserShape:
        """The shape of a denoiser for graphs with that many features, and for a GNN if given."""
        effect_gnn = gnn if self.effect_weight else None
        return DenoiserShape(
            features=features,
            hidden=self.hidden,
            blocks=self.blocks,
            steered=self.conditioned and self.counterfactual_start < self.steps,
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
        return replace(
            self,
            noise_low=self.noise_low * scale,
            effect_noise=self.effect_noise * scale,
            clean_flip=self.clean_flip * scale,
        )

    @property
    def counterfactual_start(self) -> int:
        """The first step whose loss has L_cf; `steps` if none has."""
        if self.objective is Objective.CLASS or self.alpha == 0:
            return self.steps
        return self.steps - round(self.steps * self.counterfactual_share)


_DEFAULT = Recipe()

_RECIPES: dict[tuple[Objective, str], Recipe | PaperRecipe] = {
    (Objective.COUNTERFACTUAL, "default"): _DEFAULT,
    (Objective.COUNTERFACTUAL, "paper"): PaperRecipe(),
    # Class explanations start from ER(N, 1/2), so the noise reaches 1/2.
    (Objective.CLASS, "default"): replace(
        _DEFAULT,
        objective=Objective.CLASS,
        alpha=0.0,
        effect_weight=0.0,
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
    alpha: float | None = None,
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
    """A recipe by name; None keeps the value of the recipe."""
    try:
        recipe = _RECIPES[objective, name]
    except KeyError:
        known = sorted({known for _, known in _RECIPES})
        raise ValueError(f"unknown recipe {name!r}; known recipes: {known}") from None
    changes = {"steps": steps, "hidden": hidden, "blocks": blocks, "alpha": alpha}
    return replace(recipe, **{key: value for key, value in changes.items() if value is not None})  # type: ignore[arg-type]
