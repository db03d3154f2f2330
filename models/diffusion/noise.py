"""The forward process: every unordered node pair changes its state independently."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.gnn.device import moved
from d4explain.gnn.graphs import DenseGraphs


@dataclass(frozen=True)
class NoiseLevel:
    """Probabilities that an absent edge appears and that a present edge disappears."""

    add: Tensor  # [batch] a = P(0→1)
    remove: Tensor  # [batch] b = P(1→0)

    @staticmethod
    def symmetric(flip: Tensor) -> NoiseLevel:
        """The paper's process: both directions with the same probability \\bar\\beta_t."""
        return NoiseLevel(add=flip, remove=flip)

    def to(self, device: torch.device) -> NoiseLevel:
        return NoiseLevel(moved(self.add, device), moved(self.remove, device))

    def select(self, index: Tensor | slice) -> NoiseLevel:
        return NoiseLevel(self.add[index], self.remove[index])


def add_noise(graphs: DenseGraphs, noise: NoiseLevel, generator: torch.Generator) -> DenseGraphs:
    """Draws G_t given a 0/1 graph G_0; the diagonal and the padding never change."""
    present = graphs.adjacency > 0.5
    change = torch.where(present, noise.remove[:, None, None], noise.add[:, None, None])
    uniform = symmetric_uniform(graphs.adjacency, generator)
    changed = (uniform < change) & graphs.pair_mask
    return graphs.with_adjacency((present ^ changed).to(graphs.adjacency.dtype))


def symmetric_uniform(like: Tensor, generator: torch.Generator) -> Tensor:
    """One uniform number per unordered pair, at both of its places; 0 on the diagonal.

    Drawn on the generator's device, so that a CPU generator gives every device the same noise.
    """
    drawn = torch.rand(like.shape, generator=generator, device=generator.device, dtype=like.dtype)
    upper = torch.triu(drawn, diagonal=1)
    return (upper + upper.mT).to(like.device)


def uniform_noise(count: int, generator: torch.Generator) -> NoiseLevel:
    """The paper's training noise: flip = \\bar\\beta_t uniform in [0, 1/2]."""
    return NoiseLevel.symmetric(torch.rand(count, generator=generator) / 2)


def density_noise(
    density: Tensor,  # [batch] share of the pairs that are edges
    low: float,
    high: float,
    symmetric_share: float,
    generator: torch.Generator,
) -> NoiseLevel:
    """Training noise that mostly keeps sparse graphs sparse.

    b is log-uniform in [low, high]; a share of the draws is symmetric, for the rest a = b·r with
    r log-uniform in [density, 1], where r = density roughly keeps the number of edges.
    """
    scale, ratio, kind = torch.rand(3, density.shape[0], generator=generator)
    remove = torch.exp(math.log(low) + scale * (math.log(high) - math.log(low)))
    kept_sparse = torch.exp(ratio * density.clamp(1e-4, 1).log())
    return NoiseLevel(
        add=torch.where(kind < symmetric_share, remove, remove * kept_sparse), remove=remove
    )
