"""Edit sets sampled from the denoiser: add noise at several levels, denoise, draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.gnn.graphs import to_dense
from models.counterfactual.oracle import CounterfactualOracle
from models.counterfactual.pruning import prune
from models.counterfactual.search.single_edits import SingleEdits
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.noise import NoiseLevel, add_noise
from models.graphs.edits import EditSet, EditSpace

# Limits on N³ per denoiser pass and per graph: the matrix products grow with N³, and one pass must
# fit into memory.
_TRIPLES_PER_PASS = 2**21
_TRIPLES_PER_GRAPH = 2**26


@dataclass(frozen=True)
class Proposals:
    """Noise levels, noisy graphs per level, and draws per noisy graph."""

    noise_levels: tuple[float, ...]  # flip probability \bar\beta_t, equal for both directions
    noisy_per_level: int
    draws_per_noisy: int

    def __post_init__(self) -> None:
        if not all(0 < level <= 0.5 for level in self.noise_levels):
            raise ValueError(f"noise levels must be in (0, 0.5], got {self.noise_levels}")
        if min(len(self.noise_levels), self.noisy_per_level, self.draws_per_noisy) < 1:
            raise ValueError(f"proposals need at least one sample, got {self}")

    def noisy_graphs(self, nodes: int) -> Tensor:
        """The flip probability of every noisy graph; large graphs get fewer: [noisy]."""
        affordable = _TRIPLES_PER_GRAPH // (max(nodes, 1) ** 3 * len(self.noise_levels))
        per_level = max(1, min(self.noisy_per_level, affordable))
        return torch.tensor(self.noise_levels).repeat_interleave(per_level)


def draw(
    denoiser: EdgeDenoiser,
    space: EditSpace,
    proposals: Proposals,
    generator: torch.Generator,
    device: torch.device,
) -> list[EditSet]:
    """Edit sets of graphs drawn from p(G_0 | G_t), of any size, on allowed pairs only."""
    flips = proposals.noisy_graphs(space.graph.node_count)  # [noisy]
    probability = edge_probabilities(denoiser, space, flips, generator, device)  # [noisy, pair]
    return toggles_of(
        bernoulli(probability, proposals.draws_per_noisy, generator).flatten(0, 1), space
    )


def edge_probabilities(
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


def bernoulli(probability: Tensor, draws: int, generator: torch.Generator) -> Tensor:
    """Drawn edges, True if present, for probability [graph, pair]: [graph, draw, pair]."""
    graphs, pairs = probability.shape
    return torch.rand(graphs, draws, pairs, generator=generator) < probability[:, None]


def toggles_of(edges: Tensor, space: EditSpace) -> list[EditSet]:
    """The edit set that makes each row of edges [graph, pair] from the unedited graph."""
    return [tuple(row.nonzero()[:, 0].tolist()) for row in edges != space.present]


def scattered(samples: Sequence[EditSet], pairs: int, generator: torch.Generator) -> list[EditSet]:
    """Random edit sets of the same sizes, as a baseline for the samples."""
    return [
        tuple(sorted(torch.randperm(pairs, generator=generator)[: len(edits)].tolist()))
        for edits in samples
    ]


def pruned_flips(
    samples: Sequence[EditSet],
    oracle: CounterfactualOracle,
    single_edits: SingleEdits,
    *,
    plausibility_weight: float,
    wanted: int,
    minimal: bool = True,
) -> list[EditSet]:
    """Small flips that are subsets of the samples; if `minimal`, without unnecessary edits.

    The edits of a sample are ordered by single effect, and again by effect plus plausibility.
    Prefixes of growing length are evaluated until `wanted` flips are known, then each flip is
    pruned. Prefixes also limit large samples to the budget.
    """
    orders = (single_edits.effects.tolist(), single_edits.mixed(plausibility_weight).tolist())
    ranked = [
        sorted(edits, key=lambda pair: (-order[pair], pair))[: oracle.space.budget]
        for order in orders
        for edits in dict.fromkeys(samples)
    ]
    flips: dict[EditSet, None] = {}
    for length in _lengths(oracle.space.budget):
        prefixes = list(
            dict.fromkeys(tuple(sorted(edits[:length])) for edits in ranked if len(edits) >= length)
        )
        margins = oracle.margins(prefixes)
        flips.update(
            (edits, None) for edits, margin in zip(prefixes, margins, strict=True) if margin > 0
        )
        if len(flips) >= wanted:
            break
    pruned = list(flips)
    if minimal:
        try:
            prune(pruned, oracle.trial_margins)
        finally:  # if stopped, the partly pruned sets are also flips
            oracle.margins(pruned)
    return list(dict.fromkeys(pruned))


def _lengths(budget: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, … and the budget; pruning finds the lengths in between."""
    powers = [2**power for power in range(budget.bit_length())]
    return sorted(
        {
            length
            for power in powers
            for length in (power, power * 3 // 2, budget)
            if 1 <= length <= budget
        }
    )
