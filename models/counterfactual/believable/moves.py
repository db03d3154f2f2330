"""Compound moves: single edits, moved edges and swapped edges.

In data whose nodes are saturated, such as molecules with hydrogens, no single edit leaves a graph
that looks like the data. A moved edge keeps one end's degree, a swap keeps all four.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models.graphs.edits import EditSpace

MAX_TOGGLES = 4
_MOVED_EDGES = 64  # edges that moves remove: those whose removal promises most


class MoveSpace:
    """The moves of one graph; a move is a row of positions of editable pairs, filled with -1."""

    def __init__(self, space: EditSpace) -> None:
        nodes = space.graph.node_count
        self._nodes = nodes
        self._pairs = torch.arange(space.count)
        self._position = torch.full((nodes, nodes), -1)
        self._position[space.sources, space.targets] = self._pairs
        self._position[space.targets, space.sources] = self._pairs

    def moves(self, adjacency: Tensor, gains: Tensor, *, compound: bool = True) -> Tensor:
        """Moves of a [node, node] graph, or its single edits alone: [move, MAX_TOGGLES].

        `gains` [pair] are first-order gains of single toggles; they choose the edges to move.
        """
        if not compound:
            return _filled(self._pairs[:, None])
        position = self._position
        is_edge = (adjacency > 0.5) & (position >= 0)
        edges = torch.triu(is_edge, diagonal=1).nonzero()  # [edge, 2]
        if len(edges) > _MOVED_EDGES:
            gain = gains[position[edges[:, 0], edges[:, 1]]]
            edges = edges[gain.argsort(descending=True, stable=True)[:_MOVED_EDGES]]
        is_free = (adjacency < 0.5) & (position >= 0)  # pairs that may get an edge
        return torch.cat(
            [
                _filled(self._pairs[:, None]),
                _filled(self._rotations(edges, is_free)),
                self._swaps(edges, is_free),
            ]
        )

    def _rotations(self, edges: Tensor, is_free: Tensor) -> Tensor:
        """Remove (u, v) and add (u, w): [move, 2]."""
        both = torch.cat([edges, edges.flip(1)])
        kept, left = both.repeat_interleave(self._nodes, dim=0).T
        new = torch.arange(self._nodes).repeat(len(both))
        valid = is_free[kept, new]
        kept, left, new = kept[valid], left[valid], new[valid]
        return torch.stack([self._position[kept, left], self._position[kept, new]], dim=1)

    def _swaps(self, edges: Tensor, is_free: Tensor) -> Tensor:
        """Remove (a, b) and (c, d), add (a, d) and (c, b), in both orientations: [move, 4]."""
        first, second = torch.triu_indices(len(edges), len(edges), offset=1)
        swaps = []
        for order in ((0, 1), (1, 0)):
            a, b = edges[first].T
            c, d = edges[second][:, list(order)].T
            valid = is_free[a, d] & is_free[c, b] & (a != c) & (b != d)
            a, b, c, d = a[valid], b[valid], c[valid], d[valid]
            position = self._position
            swaps.append(
                torch.stack([position[a, b], position[c, d], position[a, d], position[c, b]], dim=1)
            )
        return torch.cat(swaps)


def toggled(adjacency: Tensor, space: EditSpace, moves: Tensor) -> Tensor:
    """A [node, node] graph after each move: [move, node, node]."""
    row, place = (moves >= 0).nonzero(as_tuple=True)
    pairs = moves[row, place]
    source, target = space.sources[pairs], space.targets[pairs]
    after = adjacency.repeat(len(moves), 1, 1)
    after[row, source, target] = after[row, target, source] = 1 - after[row, source, target]
    return after


def _filled(moves: Tensor) -> Tensor:
    missing = MAX_TOGGLES - moves.shape[1]
    return torch.nn.functional.pad(moves, (0, missing), value=-1)
