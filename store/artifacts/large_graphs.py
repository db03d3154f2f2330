"""A large graph as an artifact: compressed sparse rows in a memory-mapped safetensors file.

The neighbours of a node are contiguous, so a reader loads only the rows that it needs. This module
writes the file array by array, because the safetensors library would hold all of it in memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

_DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_LENGTH_BYTES = 8  # a safetensors file begins with the length of its header
_MAX_HEADER = 4096
_CHUNK = 2**22  # values that are written or checked at once


class Pair(NamedTuple):
    source: int
    target: int


@dataclass(frozen=True)
class LargeGraph:
    """An undirected graph without self-loops; each edge is in the rows of both endpoints."""

    x: NDArray[np.float32]  # [node, feature]
    starts: NDArray[np.int64]  # [node + 1]
    neighbours: NDArray[np.int32]  # [2·edge], ascending within a row

    @property
    def node_count(self) -> int:
        return len(self.starts) - 1

    @property
    def edge_count(self) -> int:
        return len(self.neighbours) // 2

    @property
    def features(self) -> int:
        return int(self.x.shape[1])


def first_repeated(sources: NDArray[np.int64], targets: NDArray[np.int64]) -> Pair | None:
    """The smallest ordered pair that is listed twice, or None."""
    if not len(sources):
        return None
    nodes = int(max(sources.max(), targets.max())) + 1
    codes = np.sort(sources * nodes + targets)
    twice = codes[:-1][codes[1:] == codes[:-1]]
    return Pair(int(twice[0]) // nodes, int(twice[0]) % nodes) if len(twice) else None


def rows_of(
    x: NDArray[np.float32], sources: NDArray[np.int64], targets: NDArray[np.int64]
) -> LargeGraph:
    """Builds the rows from edges that are listed once or in both directions, without self-loops."""
    nodes = len(x)
    codes = np.concatenate([sources * nodes + targets, targets * nodes + sources])
    codes.sort()
    if len(codes):
        codes = codes[np.concatenate([[True], codes[1:] != codes[:-1]])]
    starts = np.searchsorted(codes, np.arange(nodes + 1, dtype=np.int64) * nodes)
    return LargeGraph(x, starts.astype(np.int64), (codes % nodes).astype(np.int32))


def write(graph: LargeGraph, file: BinaryIO) -> None:
    """Writes the graph; the same graph always gives the same bytes."""
    arrays: dict[str, NDArray[Any]] = {
        "starts": graph.starts,
        "x": graph.x,
        "neighbours": graph.neighbours,
    }
    header: dict[str, Any] = {}
    end = 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        dtype = _NAMES[array.dtype.newbyteorder("<")]
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)  # align the data, as the library does
    file.write(len(text).to_bytes(_LENGTH_BYTES, "little") + text)
    for array in arrays.values():
        flat = array.reshape(-1)
        for first in range(0, len(flat), _CHUNK):
            file.write(flat[first : first + _CHUNK].astype(_dtype(array), copy=False).tobytes())


def mapped(file: BinaryIO) -> LargeGraph:
    """Maps the graph of an open file; the system loads pages on access."""
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    if not 0 < length <= _MAX_HEADER:
        raise ValueError(f"the header has {length} bytes; at most {_MAX_HEADER} are allowed")
    header: Mapping[str, Any] = json.loads(file.read(length))

    def array(name: str) -> NDArray[Any]:
        entry = header[name]
        shape, dtype = tuple(entry["shape"]), _DTYPES[entry["dtype"]]
        if not math.prod(shape):  # an empty range cannot be mapped
            return np.empty(shape, dtype)
        offset = _LENGTH_BYTES + length + entry["data_offsets"][0]
        return np.asarray(
            np.memmap(cast(Any, file), dtype=dtype, mode="r", offset=offset, shape=shape)
        )

    return LargeGraph(array("x"), array("starts"), array("neighbours"))


def _dtype(array: NDArray[Any]) -> np.dtype[Any]:
    return array.dtype.newbyteorder("<")
