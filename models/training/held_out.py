"""Measurements of a denoiser on held-out graphs, during its training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs, Graph, to_dense
from d4explain.gnn.network import Gnn
from models.diffusion.denoiser import Denoiser
from models.diffusion.gnn_sensitivity import Toggles, drawn_toggles, logit_changes
from models.diffusion.recipes import Recipe
from models.training.detection import detection_auc
from models.training.step import EFFECT_TOGGLES, editable_pairs
from models.training.validation import predicted_share, predicted_validity

VALIDITY_RATIO = 0.1  # edits per edge that validity may use to flip a graph
TOGGLED_GRAPHS = 16  # held-out graphs whose single toggles are measured


@dataclass(frozen=True)
class HeldOutMetrics:
    detection_auc: float | None
    validity: float | None = None  # share of the graphs that the predicted edits flip
    effect_share: float | None = None  # share of the toggles' effects that is predicted

    @property
    def score(self) -> float:
        """Detection AUC plus effect share, which average over many pairs and toggles.

        Validity is no part of it. With 15 to 44 held-out graphs, one graph changes it by more than
        a hundred steps of training change the other two.
        """
        metrics = (self.detection_auc, self.effect_share)
        return sum(value for value in metrics if value is not None)


@dataclass(frozen=True)
class HeldOutGraphs:
    """The same graphs, noise and toggles at every measurement, from a generator of their own."""

    graphs: Sequence[Graph]
    gnn: Gnn | None
    recipe: Recipe
    seed: int
    device: torch.device

    def effect_scale(self) -> Tensor:
        """Root mean square of the effects of single toggles; 1 if no toggle moves the logits."""
        assert self.gnn is not None
        scale = logit_changes(self.gnn, *self._toggles(self.gnn)).square().mean().sqrt()
        return scale if scale > 0 else torch.ones(())

    def measure(self, denoiser: Denoiser) -> HeldOutMetrics:
        auc = detection_auc(
            denoiser,
            self.graphs,
            torch.Generator().manual_seed(self.seed),
            device=self.device,
            pair_budget=self.recipe.pair_budget,
        )
        if self.gnn is None or not denoiser.shape.classes:
            return HeldOutMetrics(auc)
        validity = predicted_validity(
            denoiser,
            self.gnn,
            self.graphs,
            ratio=VALIDITY_RATIO,
            device=self.device,
        )
        share = predicted_share(denoiser, self.gnn, *self._toggles(self.gnn))
        return HeldOutMetrics(auc, validity, share)

    def _toggles(self, gnn: Gnn) -> tuple[DenseGraphs, Toggles]:
        generator = torch.Generator().manual_seed(self.seed)
        graphs = to_dense(self.graphs[:TOGGLED_GRAPHS]).to(self.device)
        allowed = editable_pairs(gnn, graphs)
        return graphs, drawn_toggles(graphs, allowed, EFFECT_TOGGLES, generator)
