"""Work on every (graph, node, neighbour, number) in pieces that memory holds."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

# Numbers that may be alive at once, and how many arrays of a tile's size the work on it holds.
_NUMBERS = 2**24
_ARRAYS = 4

Tile = Callable[[slice, slice], Tensor]  # graphs, rows of them → [graph, row, …]


def tiled(tile: Tile, batch: int, nodes: int, width: int) -> Tensor:
    """The tiles of [batch, node, …] put together: whole graphs, or rows of one where it is large.

    A tile works on [graph, row, nodes, width] numbers. Behind a gradient it is computed again in
    the backward pass, since what autograd would keep of all tiles is what they are there to avoid.
    """
    limit = _NUMBERS // _ARRAYS
    graphs = max(limit // (nodes * nodes * width), 1)
    rows = min(max(limit // (nodes * width), 1), nodes)
    if graphs >= batch and rows == nodes:
        return tile(slice(0, batch), slice(0, nodes))
    parts = []
    for start in range(0, batch, graphs):
        some = slice(start, start + graphs)
        across = [_later(tile, some, slice(row, row + rows)) for row in range(0, nodes, rows)]
        parts.append(torch.cat(across, dim=1))
    return torch.cat(parts)


def _later(tile: Tile, graphs: slice, rows: slice) -> Tensor:
    if not torch.is_grad_enabled():
        return tile(graphs, rows)
    result: Tensor = checkpoint(tile, graphs, rows, use_reentrant=False, preserve_rng_state=False)
    return result
