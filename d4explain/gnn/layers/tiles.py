"""Computes values of all (graph, node, neighbour, number) in tiles that fit into memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

_NUMBERS = 2**24  # that may be in memory at once
_ARRAYS = 4  # of a tile's size that its computation needs

Tile = Callable[[slice, slice], Tensor]  # graphs, rows of them → [graph, row, …]


def tiled(tile: Tile, batch: int, nodes: int, width: int) -> Tensor:
    """Joins tiles to [batch, node, …]; a tile is some graphs, or some rows of a large graph.

    A tile computes [graph, row, nodes, width] numbers. With gradients, the backward pass computes
    each tile again: autograd would otherwise keep the arrays of all tiles.
    """
    limit = _NUMBERS // _ARRAYS
    graphs = max(limit // (nodes * nodes * width), 1)
    rows = min(max(limit // (nodes * width), 1), nodes)
    if graphs >= batch and rows == nodes:
        return tile(slice(0, batch), slice(0, nodes))
    parts = []
    for start in range(0, batch, graphs):
        some = slice(start, start + graphs)
        of_rows = [_checkpointed(tile, some, slice(r, r + rows)) for r in range(0, nodes, rows)]
        parts.append(torch.cat(of_rows, dim=1))
    return torch.cat(parts)


def _checkpointed(tile: Tile, graphs: slice, rows: slice) -> Tensor:
    if not torch.is_grad_enabled():
        return tile(graphs, rows)
    result: Tensor = checkpoint(tile, graphs, rows, use_reentrant=False, preserve_rng_state=False)
    return result
