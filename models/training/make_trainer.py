"""The trainer of a recipe."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from models.diffusion.paper.recipe import PaperRecipe
from models.diffusion.recipes import Recipe
from models.training.paper_trainer import PaperTrainer
from models.training.progress import DenoiserTrainer
from models.training.trainer import Trainer


def make_trainer(
    graphs: Sequence[Graph],
    gnn: Gnn | None,
    recipe: Recipe | PaperRecipe,
    *,
    seed: int,
    device: torch.device,
) -> DenoiserTrainer:
    if isinstance(recipe, PaperRecipe):
        return PaperTrainer(graphs, gnn, recipe, seed=seed, device=device)
    return Trainer(graphs, gnn, recipe, seed=seed, device=device)
