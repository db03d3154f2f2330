"""Trainings of a given size, timed step by step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from bench.data.synthetic import ba_shapes, tree_cycle
from bench.gnns.example_gnn import example_spec
from bench.speed.training.products import ProductReplay, products_of
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from models.diffusion.recipes import Objective, PaperRecipe, Recipe, recipe_for
from models.graphs.subgraphs import connected_subgraph, neighbours_of
from models.training.batches import HELD_OUT_DIVISOR
from models.training.make_trainer import make_trainer
from models.training.progress import DenoiserTrainer

CPU = torch.device("cpu")
_MANY_STEPS = 10**6  # so many that no timed step also validates


@dataclass(frozen=True)
class Setting:
    """A step over `graphs · levels` graphs of `nodes` nodes."""

    hidden: int
    blocks: int
    nodes: int
    graphs: int
    levels: int = 1  # noise levels per graph and step
    recipe: str = "default"

    @property
    def batch(self) -> int:
        return self.graphs * self.levels

    @property
    def description(self) -> str:
        levels = f" with {self.levels} noise levels each" if self.levels > 1 else ""
        size = f"hidden {self.hidden}, N {self.nodes}, {self.blocks} blocks"
        return f"{size}, {self.graphs} graphs{levels}"

    def graphs_of_size(self, seed: int) -> list[Graph]:
        """Connected subgraphs of this size from one of the paper's graphs."""
        generator = torch.Generator().manual_seed(seed)
        whole = (tree_cycle if self.recipe == "paper" else ba_shapes)(generator).graph
        neighbours = neighbours_of(whole)
        held_out = 0  # the paper's training holds out nothing
        if self.recipe != "paper":
            held_out = (self.graphs - 1) // (HELD_OUT_DIVISOR - 1)  # leaves `graphs` for training
        return [
            connected_subgraph(whole, neighbours, self.nodes, generator)
            for _ in range(self.graphs + held_out)
        ]

    def training(self, seed: int, *, with_gnn: bool = False) -> DenoiserTrainer:
        """Train on L_dist alone, or on all losses of the recipe.

        The GNN is untrained, because its predictions do not affect the time.
        """
        graphs = self.graphs_of_size(seed)
        recipe = self._recipe(with_gnn=with_gnn)
        gnn = None
        if with_gnn:
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                gnn = Gnn(example_spec(graphs[0].features.shape[1], 3)).eval()
        return make_trainer(graphs, gnn, recipe, seed=seed, device=CPU)

    def _recipe(self, *, with_gnn: bool) -> Recipe | PaperRecipe:
        recipe = recipe_for(
            Objective.COUNTERFACTUAL,
            self.recipe,
            steps=_MANY_STEPS,
            hidden=self.hidden,
            blocks=self.blocks,
        )
        if isinstance(recipe, PaperRecipe):
            alpha = recipe.alpha if with_gnn else 0.0
            return replace(recipe, alpha=alpha, batch_graphs=self.graphs, noise_levels=self.levels)
        return replace(
            recipe,
            predicts_effects=with_gnn,
            batch_graphs=self.batch,
            pair_budget=self.batch * self.nodes**2,
        )


class Steps:
    """Runs one training step per call; `replay_products` runs only its matrix products."""

    def __init__(self, training: DenoiserTrainer) -> None:
        self._steps = training.run()
        self.products = products_of(self)
        self.replay_products = ProductReplay(self.products)

    def __call__(self) -> None:
        next(self._steps)
