"""Edit sets as the paper prints them: average A_0' over noisy versions, then decide each pair."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from models.counterfactual.denoiser_proposals import (
    Proposals,
    bernoulli,
    edge_probabilities,
    toggles_of,
)
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.graphs.edits import EditSet, EditSpace


class Decision(Enum):
    """How edge probabilities A_0' become discrete graphs."""

    SAMPLE = "sample"  # A~_0[ij] ~ Bernoulli(A_0'[ij]), the paper's choice
    THRESHOLD = "threshold"  # A_0'[ij] > 1/2
    # The 1, 2, … pairs where A_0' differs most from the input: a threshold for every budget.
    RANKED = "ranked"


@dataclass(frozen=True)
class PaperSampling:
    """Noisy versions of the input, and what becomes of their edge probabilities."""

    # The paper samples \bar\beta_t in [0, 1/2] and does not print the levels of the explanation.
    noise_levels: tuple[float, ...] = (0.005, 0.01, 0.02, 0.05, 0.1)
    noisy_per_level: int = 4
    average: bool = True  # False decides on each noisy version by itself
    decision: Decision = Decision.SAMPLE
    draws: int = 100  # graphs drawn in all, by the decision SAMPLE

    def __post_init__(self) -> None:
        Proposals(self.noise_levels, self.noisy_per_level, self.draws)  # checks the numbers

    def noisy_graphs(self, nodes: int) -> Tensor:
        """The flip probability of every noisy version; large graphs get fewer: [noisy]."""
        return Proposals(self.noise_levels, self.noisy_per_level, 1).noisy_graphs(nodes)


def paper_edit_sets(
    denoiser: EdgeDenoiser,
    space: EditSpace,
    sampling: PaperSampling,
    generator: torch.Generator,
    device: torch.device,
) -> list[EditSet]:
    """Edit sets of the denoised input, of any size, on allowed pairs only."""
    flips = sampling.noisy_graphs(space.graph.node_count)
    probability = edge_probabilities(denoiser, space, flips, generator, device)  # [noisy, pair]
    if sampling.average:
        probability = probability.mean(0, keepdim=True)
    match sampling.decision:
        case Decision.SAMPLE:
            draws = -(-sampling.draws // len(probability))
            drawn = bernoulli(probability, draws, generator).flatten(0, 1)
            return toggles_of(drawn[: sampling.draws], space)
        case Decision.THRESHOLD:
            return toggles_of(probability > 0.5, space)
        case Decision.RANKED:
            return [edits for row in probability for edits in _ranked(row, space)]


def _ranked(probability: Tensor, space: EditSpace) -> list[EditSet]:
    """The pairs that differ most from the input, in sets of 1, 2, … up to the budget."""
    difference = (probability - space.present.to(probability.dtype)).abs()
    order = difference.argsort(descending=True, stable=True)[: space.budget].tolist()
    return [tuple(sorted(order[: count + 1])) for count in range(len(order))]
