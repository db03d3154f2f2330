"""Edit sets as the paper prints them: average A_0' over noisy versions, then decide each pair."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from d4explain.gnn.graphs import to_dense
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.noise import NoiseLevel, add_noise
from models.graphs.edits import EditSet, EditSpace

# Limits on N³ per denoiser pass and per graph: the matrix products grow with N³, and one pass must
# fit into memory.
_TRIPLES_PER_PASS = 2**21
_TRIPLES_PER_GRAPH = 2**26


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
        if not all(0 < level <= 0.5 for level in self.noise_levels):
            raise ValueError(f"noise levels must be in (0, 0.5], got {self.noise_levels}")
        if min(len(self.noise_levels), self.noisy_per_level, self.draws) < 1:
            raise ValueError(f"the sampler needs at least one sample, got {self}")

    def noisy_graphs(self, nodes: int) -> Tensor:
        """The flip probability of every noisy version; large graphs get fewer: [noisy]."""
        affordable = _TRIPLES_PER_GRAPH // (max(nodes, 1) ** 3 * len(self.noise_levels))
        per_level = max(1, min(self.noisy_per_level, affordable))
        return torch.tensor(self.noise_levels).repeat_interleave(per_level)


def paper_edit_sets(
    denoiser: EdgeDenoiser,
    space: EditSpace,
    sampling: PaperSampling,
    generator: torch.Generator,
    device: torch.device,
) -> list[EditSet]:
    """Edit sets of the denoised input, of any size, on allowed pairs only."""
    flips = sampling.noisy_graphs(space.graph.node_count)
    probability = _edge_probabilities(denoiser, space, flips, generator, device)  # [noisy, pair]
    if sampling.average:
        probability = probability.mean(0, keepdim=True)
    match sampling.decision:
        case Decision.SAMPLE:
            draws = -(-sampling.draws // len(probability))
            drawn = _bernoulli(probability, draws, generator).flatten(0, 1)
            return _toggles_of(drawn[: sampling.draws], space)
        case Decision.THRESHOLD:
            return _toggles_of(probability > 0.5, space)
        case Decision.RANKED:
            return [edits for row in probability for edits in _ranked(row, space)]


def _ranked(probability: Tensor, space: EditSpace) -> list[EditSet]:
    """The pairs that differ most from the input, in sets of 1, 2, … up to the budget."""
    difference = (probability - space.present.to(probability.dtype)).abs()
    order = difference.argsort(descending=True, stable=True)[: space.budget].tolist()
    return [tuple(sorted(order[: count + 1])) for count in range(len(order))]


def _edge_probabilities(
    denoiser: EdgeDenoiser,
    space: EditSpace,
    flips: Tensor,
    generator: torch.Generator,
    device: torch.device,
) -> Tensor:
    """P(edge | noisy graph) of one noisy graph per flip probability: [noisy, pair]."""
    noise = NoiseLevel.symmetric(flips.to(space.base.dtype))
    clean = to_dense([space.graph])
    noisy = add_noise(clean.repeat(len(flips)), noise, generator)
    per_pass = max(1, _TRIPLES_PER_PASS // max(space.graph.node_count, 1) ** 3)
    logits = []
    with torch.inference_mode():
        for batch in torch.split(torch.arange(len(flips)), per_pass):
            level = NoiseLevel.symmetric(noise.add[batch]).to(device)
            logits.append(denoiser(noisy.select(batch).to(device), level).cpu())
        return space.of_pairs(torch.cat(logits)).sigmoid()


def _bernoulli(probability: Tensor, draws: int, generator: torch.Generator) -> Tensor:
    """Drawn edges, True if present, for probability [graph, pair]: [graph, draw, pair]."""
    graphs, pairs = probability.shape
    return torch.rand(graphs, draws, pairs, generator=generator) < probability[:, None]


def _toggles_of(edges: Tensor, space: EditSpace) -> list[EditSet]:
    """The edit set that makes each row of edges [graph, pair] from the unedited graph."""
    return [tuple(row.nonzero()[:, 0].tolist()) for row in edges != space.present]
