"""One large graph as an artifact: compressed rows in a safetensors file that can be mapped.

The neighbours of a node lie side by side, so that a reader takes what it needs of a file of any
size. Committed here, array by array, since the library would first put all of it into memory.
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
_LENGTH_BYTES = 8  # of the header's length, which a safetensors file begins with
_MAX_HEADER = 4096
_CHUNK = 2**22  # values that are written or checked at once


class Pair(NamedTuple):
    source: int
    target: int


@dataclass(frozen=True)
class LargeGraph:
    """An undirected graph without self-loops; every edge stands in the rows of both its ends."""

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
    """An ordered pair that is listed twice, if there is one; the smallest of them."""
    if not len(sources):
        return None
    nodes = int(max(sources.max(), targets.max())) + 1
    codes = np.sort(sources * nodes + targets)
    twice = codes[:-1][codes[1:] == codes[:-1]]
    return Pair(int(twice[0]) // nodes, int(twice[0]) % nodes) if len(twice) else None


def rows_of(
    x: NDArray[np.float32], sources: NDArray[np.int64], targets: NDArray[np.int64]
) -> LargeGraph:
    """From listed edges, each once or once per direction, without self-loops."""
    nodes = len(x)
    codes = np.concatenate([sources * nodes + targets, targets * nodes + sources])
    codes.sort()
    if len(codes):
        codes = codes[np.concatenate([[True], codes[1:] != codes[:-1]])]
    starts = np.searchsorted(codes, np.arange(nodes + 1, dtype=np.int64) * nodes)
    return LargeGraph(x, starts.astype(np.int64), (codes % nodes).astype(np.int32))


def write(graph: LargeGraph, file: BinaryIO) -> None:
    """The same graph always gives the same bytes."""
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
    text += b" " * (-len(text) % _LENGTH_BYTES)  # aligned, as the library does it
    file.write(len(text).to_bytes(_LENGTH_BYTES, "little") + text)
    for array in arrays.values():
        flat = array.reshape(-1)
        for first in range(0, len(flat), _CHUNK):
            file.write(flat[first : first + _CHUNK].astype(_dtype(array), copy=False).tobytes())


def mapped(file: BinaryIO) -> LargeGraph:
    """The graph in an open file; what is read of it is brought in by the system, page by page."""
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    if not 0 < length <= _MAX_HEADER:
        raise ValueError(f"a large graph has a header of at most {_MAX_HEADER} bytes, got {length}")
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
