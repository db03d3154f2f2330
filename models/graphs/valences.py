"""Free valences of a molecule's atoms, and the edits that exceed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Valences:
    """An added edge uses one valence of both ends; a removed edge frees its bond order."""

    free: tuple[float, ...]  # [node]; infinite without a limit
    orders: Mapping[tuple[int, int], int]  # of every edge, source < target

    def ledger(self, sources: Tensor, targets: Tensor, present: Tensor) -> ValenceLedger:
        """The ledger of these node pairs; `present` marks edges."""
        pairs = zip(sources.tolist(), targets.tolist(), present.tolist(), strict=True)
        cost = [-self.orders[one, other] if edge else 1 for one, other, edge in pairs]
        return ValenceLedger(
            sources,
            targets,
            torch.tensor(cost, dtype=torch.float32),
            torch.tensor(self.free, dtype=torch.float32),
        )


@dataclass(frozen=True)
class ValenceLedger:
    """The valence cost of toggling each pair, and the free valences of each node."""

    sources: Tensor  # [pair] int64
    targets: Tensor  # [pair] int64
    cost: Tensor  # [pair], negative where an edge is removed
    free: Tensor  # [node]

    def kept(self, edit_sets: Sequence[Sequence[int]]) -> list[bool]:
        """Whether each set respects all valences."""
        return (self._left(edit_sets) >= 0).all(dim=1).tolist()

    def affordable(self, edit_sets: Sequence[Sequence[int]]) -> Tensor:
        """Whether each pair can be toggled after each set: [set, pair]."""
        left = self._left(edit_sets)
        ends = torch.minimum(left[:, self.sources], left[:, self.targets])
        return (self.cost < 0) | (ends >= self.cost)

    def _left(self, edit_sets: Sequence[Sequence[int]]) -> Tensor:
        """Free valences after each set: [set, node]."""
        sizes = torch.tensor([len(edits) for edits in edit_sets], dtype=torch.long)
        rows = torch.repeat_interleave(torch.arange(len(edit_sets)), sizes)
        pairs = torch.tensor([pair for edits in edit_sets for pair in edits], dtype=torch.long)
        left = self.free.repeat(len(edit_sets), 1)
        for ends in (self.sources, self.targets):
            left.index_put_((rows, ends[pairs]), -self.cost[pairs], accumulate=True)
        return left
