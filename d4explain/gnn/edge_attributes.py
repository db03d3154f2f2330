"""Attributes of added edges: the most frequent attributes between nodes of the same types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class UsualAttributes:
    """The most frequent attributes of edges between nodes of two types.

    The type of a node is the column of its largest feature (the first, if several are equal), as in
    one-hot features. Pairs of types without an edge get the most frequent attributes of all edges.
    """

    pairs: Tensor  # [known pair] int64, ascending codes of two types
    rows: Tensor  # [known pair + 1, attribute]; the last row is for all other pairs

    @classmethod
    def seen(
        cls, features: Sequence[Tensor], edges: Sequence[Tensor], attributes: Sequence[Tensor]
    ) -> UsualAttributes:
        """Counts over graphs, each given by [node, feature], [2, edge] and [edge, attribute].

        If attributes are equally frequent, the smallest values win.
        """
        codes = torch.cat([_codes(x, *ends) for x, ends in zip(features, edges, strict=True)])
        distinct, kind = torch.unique(torch.cat(list(attributes)), dim=0, return_inverse=True)
        if not len(codes):
            return cls.always(attributes[0].new_zeros(attributes[0].shape[1]))
        overall = int(torch.bincount(kind).argmax())
        counted, counts = np.unique(torch.stack([codes, kind]).numpy(), axis=1, return_counts=True)
        # Sorted by code, the most frequent first; np.unique left equal counts sorted by value.
        order = np.lexsort((-counts, counted[0]))
        pairs, first = np.unique(counted[0][order], return_index=True)
        most_frequent = torch.from_numpy(counted[1][order][first])
        rows = torch.cat([distinct[most_frequent], distinct[overall][None]])
        return cls(torch.from_numpy(pairs), rows)

    @classmethod
    def always(cls, row: Tensor) -> UsualAttributes:
        """The same [attribute] for all pairs."""
        return cls(torch.empty(0, dtype=torch.int64), row[None])

    def between(self, features: Tensor) -> Tensor:
        """Attributes of all pairs of nodes with these [node, feature]: [node, node, attribute]."""
        nodes = torch.arange(len(features), device=features.device)
        return self.of_pairs(features, nodes[:, None], nodes[None, :])

    def of_pairs(self, features: Tensor, one: Tensor, other: Tensor) -> Tensor:
        """Attributes of some pairs, given by the positions of their ends: [pair, attribute]."""
        codes = _codes(features, one, other)
        pairs, rows = self.pairs.to(features.device), self.rows.to(features)
        if not len(pairs):
            return rows[-1].expand(*codes.shape, -1)
        place = torch.searchsorted(pairs, codes).clamp(max=len(pairs) - 1)
        return rows[torch.where(pairs[place] == codes, place, len(pairs))]


def _codes(features: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """One number per unordered pair of node types."""
    types = features.argmax(dim=1)  # the first, if several are equal
    first, second = types[one], types[other]
    return torch.minimum(first, second) * features.shape[1] + torch.maximum(first, second)
