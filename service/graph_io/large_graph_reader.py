"""Uploaded large graphs: npz or NDJSON to compressed rows; sizes are looked at before values."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from tokenize import TokenError
from typing import IO, Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from service.graph_io.schemas import MAX_FLOAT32, Feature
from service.http.faults import Fault, InvalidRequestError, faults_of, reject
from service.http.json_bodies import MalformedJsonError, parse_json
from service.schemas import Body
from store.artifacts.large_graphs import LargeGraph, first_repeated, rows_of
from store.settings import Settings

_CHUNK = 2**22  # bytes that are read and checked at once
_WIDEST = 8  # bytes of a number
_HEADERS: dict[tuple[int, int], Callable[[IO[bytes]], tuple[tuple[int, ...], bool, np.dtype]]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
Node = NDArray[np.int64]
Values = NDArray[np.float32]
Kept = TypeVar("Kept", np.float32, np.int64)


class LargeForm(StrEnum):
    NPZ = "application/x-npz"
    NDJSON = "application/x-ndjson"


class LargeLine(Body):
    """Some of the nodes, or edges, or both; nodes are numbered in the order in which they come."""

    x: list[list[Feature]] | None = Field(None, description="Features of the next nodes.")
    edge_index: list[list[int]] | None = Field(
        None,
        description="Sources and targets of some edges; each edge is listed once, or once per "
        "direction. They may name nodes of later lines.",
    )


def read_large(file: BinaryIO, form: LargeForm, limits: Settings) -> LargeGraph:
    """The graph of an upload, checked; without features every node gets the constant 1."""
    x, sources, targets = (_npz if form is LargeForm.NPZ else _ndjson)(file, limits)
    if not len(sources):
        reject("/edge_index", "the graph has no edges; edits are budgeted as a share of them")
    least, most = int(min(sources.min(), targets.min())), int(max(sources.max(), targets.max()))
    if x is None:
        _check_size("/edge_index", most + 1, "nodes", limits.max_large_nodes)
        x = np.ones((most + 1, 1), dtype=np.float32)
    if least < 0 or most >= len(x):
        said = least if least < 0 else most
        reject("/edge_index", f"names the node {said}; the nodes are 0 to {len(x) - 1:,}")
    loops = sources[sources == targets]
    if len(loops):
        reject("/edge_index", f"has a self-loop of node {loops[0]}")
    repeated = first_repeated(sources, targets)
    if repeated is not None:
        source, target = repeated
        reject("/edge_index", f"the edge from {source} to {target} is listed twice")
    graph = rows_of(x, sources, targets)
    _check_size("/edge_index", graph.edge_count, "edges", limits.max_large_edges)
    return graph


def _npz(file: BinaryIO, limits: Settings) -> tuple[Values | None, Node, Node]:
    """Arrays `edge_index` [2, edge] and, if there are features, `x` [node, feature]."""
    x = None
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            for name in ("edge_index.npy", "x.npy"):
                if names.count(name) > 1:
                    reject("", f"the archive has {name} more than once")
            if "edge_index.npy" not in names:
                reject("/edge_index", "is required: an integer array of two rows")
            with archive.open("edge_index.npy") as member:
                header = _header(member, "/edge_index", "iu")
                _edges(header.shape, limits)
                sources, targets = _array(member, header, np.empty(header.count, np.int64))
            if "x.npy" in names:
                with archive.open("x.npy") as member:
                    header = _header(member, "/x", "fiu")
                    _features(header.shape, limits)
                    x = _array(member, header, np.empty(header.count, np.float32))
    # what hostile or broken archives make the readers raise; reading a member is never more than
    # its header has said
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, OSError) as error:
        raise InvalidRequestError([Fault("", f"the npz file cannot be read: {error}")]) from error
    return x, sources, targets


@dataclass(frozen=True)
class _Header:
    at: str  # the member's place, for what is said about it
    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]

    @property
    def count(self) -> int:
        return math.prod(self.shape)


def _header(member: IO[bytes], at: str, kinds: str) -> _Header:
    try:
        version = np.lib.format.read_magic(member)
        if version not in _HEADERS:
            reject(at, f"is a .npy array of version {version}; 1.0 and 2.0 are read")
        shape, is_fortran, dtype = _HEADERS[version](member)
    except (ValueError, SyntaxError, TokenError, RecursionError, MemoryError) as error:
        # NumPy parses the header as a Python literal, which fails in all these ways.
        said = str(error) or type(error).__name__
        raise InvalidRequestError([Fault(at, f"is no .npy array: {said}")]) from error
    if dtype.kind not in kinds or dtype.itemsize > _WIDEST or dtype.hasobject:
        wanted = "integers" if kinds == "iu" else "integers or floats"
        reject(at, f"is an array of {dtype}; {wanted} of at most {8 * _WIDEST} bits are wanted")
    if min(shape, default=0) < 0:
        reject(at, f"has the shape {list(shape)}; sizes are not negative")
    return _Header(at, shape, is_fortran, dtype)


def _array(member: IO[bytes], header: _Header, found: NDArray[Kept]) -> NDArray[Kept]:
    """Fills `found`, whose type is the one that is kept, piece by piece.

    Memory is that of what is kept, whatever width was sent.
    """
    width = header.dtype.itemsize
    for first in range(0, len(found), _CHUNK // width):
        part = found[first : first + _CHUNK // width]
        read = member.read(len(part) * width)
        if len(read) < len(part) * width:
            missing = (len(found) - first) * width - len(read)
            reject(header.at, f"ends {missing:,} bytes before its {len(found) * width:,}")
        values = np.frombuffer(read, header.dtype)
        _check_range(header.at, values, found.dtype)
        part[:] = values
    if header.is_fortran:
        return np.ascontiguousarray(found.reshape(header.shape[::-1]).T)
    return found.reshape(header.shape)


def _check_range(at: str, values: NDArray[Any], kept: np.dtype[Any]) -> None:
    if kept.kind == "f":
        if not (np.abs(values.astype(np.float64, copy=False)) <= MAX_FLOAT32).all():
            reject(at, "has values that are not finite, or beyond single precision")
    elif values.dtype.kind == "u" and int(values.max(initial=0)) >> 63:
        reject(at, "has numbers of more than 63 bits")


def _edges(shape: tuple[int, ...], limits: Settings) -> None:
    if len(shape) != 2 or shape[0] != 2:
        reject("/edge_index", f"has the shape {list(shape)}; two rows are wanted")
    _check_size("/edge_index", shape[1], "listed edges", 2 * limits.max_large_edges)


def _features(shape: tuple[int, ...], limits: Settings) -> None:
    if len(shape) != 2:
        reject("/x", f"has the shape {list(shape)}; [node, feature] is wanted")
    nodes, features = shape
    if nodes < 1:
        reject("/x", "the graph has no nodes")
    if not 1 <= features <= limits.max_features:
        reject("/x", f"a node has {features:,} features; allowed are 1 to {limits.max_features:,}")
    _check_size("/x", nodes, "nodes", limits.max_large_nodes)
    _check_size("/x", nodes * features, "feature values", limits.max_large_values)


def _ndjson(file: BinaryIO, limits: Settings) -> tuple[Values | None, Node, Node]:
    xs: list[Values] = []
    sources: list[Node] = []
    targets: list[Node] = []
    nodes = listed = 0
    for at, line in _lines(file, limits):
        if line.x:
            nodes += len(line.x)
            width = len(line.x[0]) if not xs else xs[0].shape[1]
            for row, values in enumerate(line.x):
                if len(values) != width:
                    said = f"has {len(values):,} features; the first node has {width:,}"
                    reject(f"{at}/x/{row}", said)
            _features((nodes, width), limits)
            xs.append(np.array(line.x, dtype=np.float32).reshape(-1, width))
        if line.edge_index is not None:
            rows = line.edge_index
            if len(rows) != 2 or len(rows[0]) != len(rows[1]):
                reject(f"{at}/edge_index", "should be two arrays of the same length")
            listed += len(rows[0])
            _check_size(f"{at}/edge_index", listed, "listed edges", 2 * limits.max_large_edges)
            sources.append(np.array(rows[0], dtype=np.int64))
            targets.append(np.array(rows[1], dtype=np.int64))
    nothing = np.empty(0, dtype=np.int64)
    x = np.concatenate(xs) if xs else None
    return x, np.concatenate([nothing, *sources]), np.concatenate([nothing, *targets])


def _lines(file: BinaryIO, limits: Settings) -> Iterator[tuple[str, LargeLine]]:
    """The lines that are not empty, each with its place: `/0`, `/1`, …"""
    most = limits.max_body_bytes
    number = 0
    while line := file.readline(most + 1):
        at = f"/{number}"
        number += 1
        if len(line) > most:
            reject(at, f"the line is longer than {most:,} bytes; give the graph in more lines")
        if not line.strip():
            continue
        try:
            document = parse_json(line)
            yield at, LargeLine.model_validate(document, strict=True)
        except MalformedJsonError as error:
            reject(at, f"is not JSON: {error}")
        except InvalidRequestError as error:
            raise InvalidRequestError(
                [Fault(f"{at}{fault.at}", fault.detail) for fault in error.faults]
            ) from error
        except ValidationError as error:
            raise InvalidRequestError(faults_of(error, document, at)) from error


def _check_size(at: str, sent: int, what: str, allowed: int) -> None:
    if sent > allowed:
        reject(at, f"the graph has {sent:,} {what}; this deployment accepts at most {allowed:,}")
