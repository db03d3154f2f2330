"""How much two graphs differ in their node neighbourhoods (Weisfeiler and Lehman, 1968).

Each node gets a code of its own type, then of its type and those of its neighbours, and so on up to
`HOPS` hops. The distance of two graphs is the Ruzicka distance of their counted codes:
1 - Σ min / Σ max. It is 0 for graphs that these codes cannot tell apart, and 1 if they share none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from d4explain.gnn.graphs import Graph

HOPS = 2
MAX_TYPES = 100  # different feature rows; with more, nearly every node would be unique
_Codes = NDArray[np.uint64]
_MULTIPLIERS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))
_SHIFT = np.uint64(31)


@dataclass(frozen=True)
class CountedNeighbourhoods:
    """The codes of several graphs, sorted by code."""

    codes: _Codes  # [entry]
    graphs: NDArray[np.int64]  # [entry]
    counts: NDArray[np.int64]  # [entry]
    totals: NDArray[np.int64]  # [graph] sum of its counts
    compares_features: bool

    @property
    def size_bytes(self) -> int:
        return sum(part.nbytes for part in (self.codes, self.graphs, self.counts, self.totals))


def count_neighbourhoods(
    graphs: Sequence[Graph], compares_features: bool | None = None
) -> CountedNeighbourhoods:
    """By default, features are compared unless there are too many different ones."""
    sizes = np.array([graph.node_count for graph in graphs], dtype=np.int64)
    starts = np.cumsum(sizes) - sizes
    if compares_features is None:
        rows = torch.cat([graph.features for graph in graphs])
        compares_features = len(torch.unique(rows, dim=0)) <= MAX_TYPES
    owner = np.repeat(np.arange(len(graphs)), sizes)
    one_way = np.concatenate(
        [graph.edges.cpu().numpy() + start for graph, start in zip(graphs, starts, strict=True)],
        axis=1,
    )
    source, target = np.concatenate([one_way, one_way[::-1]], axis=1)
    codes = _first_codes(graphs, starts, int(sizes.sum()), compares_features=compares_features)
    all_codes = [_mixed(codes, 0)]
    for hop in range(1, HOPS + 1):
        around = np.zeros_like(codes)
        np.add.at(around, target, _mixed(codes, 1)[source])  # modulo 2⁶⁴
        codes = _mixed(codes + _mixed(around, 0), 1)
        all_codes.append(_mixed(codes, hop))
    entries = np.stack([np.concatenate(all_codes), np.tile(owner, HOPS + 1).astype(np.uint64)])
    counted, counts = np.unique(entries, axis=1, return_counts=True)
    return CountedNeighbourhoods(
        codes=counted[0],
        graphs=counted[1].astype(np.int64),
        counts=counts.astype(np.int64),
        totals=sizes * (HOPS + 1),
        compares_features=compares_features,
    )


def distances(one: CountedNeighbourhoods, others: CountedNeighbourhoods) -> NDArray[np.float64]:
    """Distances of a single graph to each of the others: [graph]."""
    place = np.searchsorted(one.codes, others.codes).clip(max=len(one.codes) - 1)
    shared = np.where(one.codes[place] == others.codes, one.counts[place], 0)
    common = np.bincount(
        others.graphs, weights=np.minimum(shared, others.counts), minlength=len(others.totals)
    )
    either = one.totals[0] + others.totals - common
    away: NDArray[np.float64] = 1.0 - common / either
    return away


def _first_codes(
    graphs: Sequence[Graph], starts: NDArray[np.int64], nodes: int, *, compares_features: bool
) -> _Codes:
    codes = np.zeros(nodes, dtype=np.uint64)
    if compares_features:
        rows = torch.cat([graph.features for graph in graphs]).cpu().numpy().astype(np.float64)
        for column in (rows + 0.0).view(np.uint64).T:  # + 0.0 makes -0 equal to 0
            codes = _mixed(codes + column, 1)
    for graph, start in zip(graphs, starts, strict=True):
        if graph.target is not None:  # an explained node differs from all others
            codes[start + graph.target] ^= _MULTIPLIERS[0]
    return codes


def _mixed(codes: _Codes, salt: int) -> _Codes:
    """A bijection of 64-bit numbers, different for each salt."""
    mixed = (codes + np.uint64(salt + 1)) * _MULTIPLIERS[0]
    mixed = (mixed ^ (mixed >> _SHIFT)) * _MULTIPLIERS[1]
    return mixed ^ (mixed >> _SHIFT)
