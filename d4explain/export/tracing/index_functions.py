"""Translates functions that choose or collect rows: columns, pools, degrees, broadcasts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from d4explain.export.tracing.function_calls import FunctionCall, embed
from d4explain.export.tracing.recording import Index, Recorder, Value
from d4explain.export.translators.translation import UnsupportedLayerError
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


def get_item(call: FunctionCall) -> None:
    item_of(call.recorder, call.args[0], call.args[1], call.result)


def index_select(call: FunctionCall) -> None:
    if call.argument(1, "dim") != 0:
        raise UnsupportedLayerError("index_select is supported along rows only")
    item_of(call.recorder, call.args[0], call.argument(2, "index"), call.result)


def item_of(r: Recorder, source: Tensor, index: Any, result: Tensor) -> None:
    """`x[:, columns]`, `edge_index[0]`, and `graph_values[batch]`."""
    symbol = r.symbol(source)
    if symbol is Index.EDGES and isinstance(index, int) and index in (0, 1):
        r.bind(result, Index.SOURCES if index == 0 else Index.TARGETS)
    elif isinstance(symbol, Value) and isinstance(index, Tensor):
        _rows_by_index(r, symbol.number, index, result)
    elif isinstance(symbol, Value):
        _columns(r, symbol.number, source, index, result)
    elif symbol is not None or not isinstance(index, Tensor):
        raise UnsupportedLayerError(f"indexing by {_index_text(index)} is not supported")
    elif isinstance(r.symbol(index), Value) and source.dim() == 2:
        embed(r, index, source, result, "embedding")
    # Otherwise these are rows of a constant, one per node: constant if all are equal.


def scatter_add(call: FunctionCall) -> None:
    """zeros.scatter_add_(0, index, rows): a sum pool, node counts or degrees."""
    _collect(call, "sum")


def scatter_reduce(call: FunctionCall) -> None:
    kind = call.argument(4, "reduce")
    if kind not in _POOLS:
        raise UnsupportedLayerError(f"a pool by {kind} is not supported; use mean, sum or max")
    _collect(call, kind)


def bin_count(call: FunctionCall) -> None:
    if call.argument(1, "weights", None) is not None:
        raise UnsupportedLayerError("bincount with weights is not supported; use a pool")
    _count(call.recorder, call.recorder.symbol(call.args[0]), call.result)


def _collect(call: FunctionCall, kind: str) -> None:
    r, index = call.recorder, call.recorder.symbol(call.argument(2, "index"))
    rows = call.argument(3, "source" if call.name == "index_add" else "src")
    if r.symbol(call.args[0]) is not None:
        raise UnsupportedLayerError(f"{call.name} is supported into zeros only")
    number = r.number(rows)
    if number is None and not r.is_known([rows]) and bool((rows == 1).all()) and kind == "sum":
        _count(r, index, call.result)
    elif number is None or index is None:
        raise UnsupportedLayerError(f"{call.name} of these arguments is not supported")
    elif index is Index.GRAPHS and r.rows(number) == "node":
        r.emit(PoolLayer(_POOLS[kind]), (number,), call.result, f"{_POOLS[kind]} pool")
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
    if start >= stop:
        raise UnsupportedLayerError(f"{_index_text(index)} chooses none of {width} columns")
    if (start, stop) == (0, width):
        r.bind(result, Value(number))
    else:
        r.emit(ColumnsLayer(start, stop), (number,), result, "columns")


def _index_text(index: object) -> str:
    if isinstance(index, Tensor):
        return "a tensor"
    return repr(index)[:60]
