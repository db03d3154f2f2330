"""Translates functions that choose or collect rows: columns, pools, degrees, broadcasts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from d4explain.export.recording import Index, Recorder, Value
from d4explain.export.translation import UnsupportedLayerError, argument
from d4explain.gnn.spec import (
    AffineLayer,
    BroadcastLayer,
    ColumnsLayer,
    GinSumLayer,
    PoolLayer,
    PoolOp,
)
from d4explain.layer_graph import FEATURES

_BY_HAND = (
    "message passing by hand is not supported; use a convolution of PyG, such as GraphConv or "
    "SAGEConv"
)
_POOLS: dict[str, PoolOp] = {"sum": "sum", "mean": "mean", "amax": "max"}


def get_item(
    r: Recorder, _name: str, args: tuple[Any, ...], _o: dict[str, Any], result: Any
) -> None:
    """`x[:, columns]`, `edge_index[0]`, and `graph_values[batch]`."""
    source, index = args[0], args[1]
    symbol = r.symbol(source)
    if symbol is Index.EDGES and index in (0, 1):
        r.bind(result, Index.SOURCES if index == 0 else Index.TARGETS)
    elif isinstance(symbol, Value):
        if isinstance(index, Tensor):
            _rows_by_index(r, symbol.number, index, result)
        else:
            _columns(r, symbol.number, source, index, result)
    elif symbol is None and isinstance(index, Tensor):
        if isinstance(r.symbol(index), Value) and source.dim() == 2:
            from d4explain.export.tensor_functions import embed  # noqa: PLC0415 - a cycle

            embed(r, index, source, result, "embedding")
        # otherwise rows of a constant, one per node: constant if all are equal
    else:
        raise UnsupportedLayerError(f"indexing by {_index_text(index)} is not supported")


def index_select(
    r: Recorder, name: str, args: tuple[Any, ...], options: dict[str, Any], result: Any
) -> None:
    if argument(args, options, 1, "dim") != 0:
        raise UnsupportedLayerError("index_select is supported along rows only")
    get_item(r, name, (args[0], argument(args, options, 2, "index")), {}, result)


def scatter_add(
    r: Recorder, name: str, args: tuple[Any, ...], options: dict[str, Any], result: Any
) -> None:
    """zeros.scatter_add_(0, index, rows): a sum pool, node counts or degrees."""
    _collect(r, name, args, options, result, "sum")


def scatter_reduce(
    r: Recorder, name: str, args: tuple[Any, ...], options: dict[str, Any], result: Any
) -> None:
    kind = argument(args, options, 4, "reduce")
    if kind not in _POOLS:
        raise UnsupportedLayerError(f"a pool by {kind} is not supported; use mean, sum or max")
    _collect(r, name, args, options, result, kind)


def bin_count(
    r: Recorder, _name: str, args: tuple[Any, ...], _options: dict[str, Any], result: Any
) -> None:
    _count(r, r.symbol(args[0]), result)


def _collect(
    r: Recorder,
    name: str,
    args: tuple[Any, ...],
    options: dict[str, Any],
    result: Tensor,
    kind: str,
) -> None:
    target, index = args[0], r.symbol(argument(args, options, 2, "index"))
    rows = argument(args, options, 3, "source" if name == "index_add" else "src")
    if r.symbol(target) is not None:
        raise UnsupportedLayerError(f"{name} is supported into zeros only")
    number = r.number(rows)
    if number is None and not r.is_known([rows]) and bool((rows == 1).all()) and kind == "sum":
        _count(r, index, result)
    elif number is None or index is None:
        raise UnsupportedLayerError(f"{name} of these arguments is not supported")
    elif index is Index.GRAPHS and r.rows(number) == "node":
        r.emit(PoolLayer(_POOLS[kind]), (number,), result, f"{_POOLS[kind]} pool")
    else:
        raise UnsupportedLayerError(_BY_HAND)


def _count(r: Recorder, index: object, result: Tensor) -> None:
    """Ones added up by graph are node counts; by the ends of edges, they are degrees."""
    if not isinstance(index, Index) or index is Index.EDGES:
        raise UnsupportedLayerError("counting is supported for batch and for rows of edge_index")
    ones = r.emit(ColumnsLayer(0, 1), (FEATURES,), None, "one column")
    ones = r.emit(AffineLayer(0.0, 1.0), (ones,), None, "ones")
    if index is Index.GRAPHS:
        r.node_counts.add(r.emit(PoolLayer("sum"), (ones,), result, "node count"))
    else:  # with eps = -1, GIN's sum is that of the neighbours alone
        tensors = {"conv.eps": torch.tensor([-1.0])}
        r.emit(GinSumLayer(), (ones,), result, "degree", tensors)


def _rows_by_index(r: Recorder, number: int, index: Tensor, result: Tensor) -> None:
    match r.symbol(index):
        case Index.GRAPHS if r.rows(number) == "graph":
            r.emit(BroadcastLayer(), (number,), result, "rows of graphs")
        case Index.SOURCES | Index.TARGETS:
            raise UnsupportedLayerError(_BY_HAND)
        case _:
            raise UnsupportedLayerError("choosing rows by a tensor is not supported")


def _columns(r: Recorder, number: int, source: Tensor, index: Any, result: Tensor) -> None:
    parts = index if isinstance(index, tuple) else (index,)
    if parts and parts[0] is Ellipsis:
        parts = (slice(None), *parts[1:])
    width = r.width(number)
    if (
        parts == (slice(None), None)
        or parts == (slice(None), slice(None))
        or parts == (slice(None),)
    ):
        r.bind(result, Value(number))
        return
    if len(parts) != 2 or parts[0] != slice(None) or source.dim() != 2:
        raise UnsupportedLayerError(f"indexing by {_index_text(index)} is not supported")
    chosen = parts[1]
    if isinstance(chosen, int):
        start, stop = chosen % width, chosen % width + 1
    elif isinstance(chosen, slice) and chosen.step in (None, 1):
        start, stop, _ = chosen.indices(width)
    else:
        raise UnsupportedLayerError("columns are chosen by a number or a slice")
    if (start, stop) == (0, width):
        r.bind(result, Value(number))
    else:
        r.emit(ColumnsLayer(start, stop), (number,), result, "columns")


def _index_text(index: object) -> str:
    if isinstance(index, Tensor):
        return "a tensor"
    return repr(index)[:60]
