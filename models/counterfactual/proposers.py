"""Where rankings of edits come from: the denoiser, or the GNN's slopes without one."""

from __future__ import annotations

from typing import Protocol

import torch

from d4explain.gnn.graphs import DenseGraphs
from models.counterfactual.config import CounterfactualConfig
from models.counterfactual.edit_ranking import (
    DenoiserEditRanker,
    EditRanker,
    EffectSource,
    SlopeEditRanker,
    equal_plausibility,
)
from models.counterfactual.oracle import CounterfactualOracle
from models.diffusion.edge_denoiser import EdgeDenoiser, Reading
from models.diffusion.gnn_sensitivity import Sensitivity


class EditProposer(Protocol):
    """Ranks edits; the GNN verifies them."""

    has_denoiser: bool  # False: plausibilities only break ties and are not part of the result

    def rank_edits(
        self, oracle: CounterfactualOracle, generator: torch.Generator, device: torch.device
    ) -> EditRanker:
        """Ranks all pairs of a small graph."""

    def read(self, graphs: DenseGraphs, sensitivity: Sensitivity | None = None) -> Reading:
        """Reads plausibility and effects of all toggles of patches of a large graph."""


class DenoiserProposer:
    """Effects and plausibilities of a trained denoiser."""

    has_denoiser = True

    def __init__(self, denoiser: EdgeDenoiser, effect_source: EffectSource) -> None:
        self._denoiser = denoiser.eval()
        self._effect_source = effect_source

    def rank_edits(
        self, oracle: CounterfactualOracle, generator: torch.Generator, device: torch.device
    ) -> EditRanker:
        return DenoiserEditRanker(
            self._denoiser,
            oracle,
            device,
            effect_source=self._effect_source,
            generator=generator,
        )

    def read(self, graphs: DenseGraphs, sensitivity: Sensitivity | None = None) -> Reading:
        return self._denoiser.read(graphs, sensitivity)


class SlopeProposer:
    """The GNN's slopes as effects, equal plausibilities, and no training."""

    has_denoiser = False

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator

    def rank_edits(
        self, oracle: CounterfactualOracle, generator: torch.Generator, device: torch.device
    ) -> EditRanker:
        return SlopeEditRanker(oracle, generator)

    def read(self, graphs: DenseGraphs, sensitivity: Sensitivity | None = None) -> Reading:
        plausibility = equal_plausibility(tuple(graphs.adjacency.shape), self._generator)
        return Reading(plausibility, None if sensitivity is None else sensitivity.slopes)


def edit_proposer(
    denoiser: EdgeDenoiser | None, config: CounterfactualConfig, generator: torch.Generator
) -> EditProposer:
    if denoiser is not None:
        return DenoiserProposer(denoiser, config.effect_source)
    if config.sampler == "paper":
        raise ValueError("the paper's sampler needs a denoiser")
    return SlopeProposer(generator)
