"""Where rankings and samples of edits come from: the denoiser, or the GNN's slopes without one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from d4explain.gnn.graphs import DenseGraphs
from models.counterfactual.config import CounterfactualConfig
from models.counterfactual.denoiser_proposals import draw, scattered
from models.counterfactual.edit_ranking import (
    DenoiserEditRanker,
    EditRanker,
    EffectSource,
    SlopeEditRanker,
    equal_plausibility,
    top_k_edit_sets,
)
from models.counterfactual.oracle import CounterfactualOracle
from models.counterfactual.paper.proposals import paper_edit_sets
from models.diffusion.edge_denoiser import EdgeDenoiser, Reading
from models.diffusion.gnn_sensitivity import Sensitivity
from models.graphs.edits import EditSet, EditSpace


@dataclass(frozen=True)
class Samples:
    """Non-empty edit sets to start from."""

    edit_sets: list[EditSet]
    drawn: int  # graphs drawn from the denoiser, unedited ones included


class EditProposer(Protocol):
    """Ranks edits and samples sets of many edits; the GNN verifies them."""

    has_denoiser: bool  # False: plausibilities only break ties and are not part of the result

    def rank_edits(
        self, oracle: CounterfactualOracle, generator: torch.Generator, device: torch.device
    ) -> EditRanker:
        """Ranks all pairs of a small graph."""

    def read(self, graphs: DenseGraphs, sensitivity: Sensitivity | None = None) -> Reading:
        """Reads plausibility and effects of all toggles of patches of a large graph."""

    def sample(
        self,
        space: EditSpace,
        ranker: EditRanker,
        generator: torch.Generator,
        device: torch.device,
    ) -> Samples:
        """Samples edit sets of a small graph."""


class DenoiserProposer:
    """Effects, plausibilities and samples of a trained denoiser."""

    has_denoiser = True

    def __init__(self, denoiser: EdgeDenoiser, config: CounterfactualConfig) -> None:
        self._denoiser = denoiser.eval()
        self._config = config

    def rank_edits(
        self, oracle: CounterfactualOracle, generator: torch.Generator, device: torch.device
    ) -> EditRanker:
        return DenoiserEditRanker(
            self._denoiser,
            oracle,
            device,
            effect_source=self._config.effect_source,
            generator=generator,
        )

    def read(self, graphs: DenseGraphs, sensitivity: Sensitivity | None = None) -> Reading:
        return self._denoiser.read(graphs, sensitivity)

    def sample(
        self,
        space: EditSpace,
        ranker: EditRanker,
        generator: torch.Generator,
        device: torch.device,
    ) -> Samples:
        drawn = draw(self._denoiser, space, self._config.proposals, generator, device)
        return self._samples(drawn, space, generator)

    def _samples(
        self, drawn: list[EditSet], space: EditSpace, generator: torch.Generator
    ) -> Samples:
        """The non-empty sets; for ablations, random sets of the same sizes."""
        if self._config.effect_source is not EffectSource.DENOISER:
            drawn = scattered(drawn, space.count, generator)
        return Samples([edits for edits in drawn if edits], len(drawn))


class PaperProposer(DenoiserProposer):
    """Samples as the paper prints it; its rankings only describe the answers."""

    def sample(
        self,
        space: EditSpace,
        ranker: EditRanker,
        generator: torch.Generator,
        device: torch.device,
    ) -> Samples:
        drawn = paper_edit_sets(self._denoiser, space, self._config.paper, generator, device)
        return self._samples(drawn, space, generator)


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

    def sample(
        self,
        space: EditSpace,
        ranker: EditRanker,
        generator: torch.Generator,
        device: torch.device,
    ) -> Samples:
        """Takes the edits with the largest predicted gains together."""
        return Samples(top_k_edit_sets(ranker, space.present, space.budget), drawn=0)


def edit_proposer(
    denoiser: EdgeDenoiser | None, config: CounterfactualConfig, generator: torch.Generator
) -> EditProposer:
    if denoiser is not None:
        proposer = PaperProposer if config.sampler == "paper" else DenoiserProposer
        return proposer(denoiser, config)
    if config.sampler == "paper":
        raise ValueError("the paper's sampler needs a denoiser")
    return SlopeProposer(generator)
