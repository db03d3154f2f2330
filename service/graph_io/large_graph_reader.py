"""Reads uploaded large graphs, npz or NDJSON, as compressed rows; checks sizes before values."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from tokenize import TokenError
from typing import IO, Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from d4explain.contracts.gnn_files.gnn_archive import UNREADABLE
from service.graph_io.schemas import MAX_FLOAT32, Feature
from service.graph_io.unread_attributes import InputWarnings, is_edge_value, is_feature_name
from service.http.faults import Fault, InvalidRequestError, faults_of, reject, too_many
from service.http.json_bodies import MalformedJsonError, parse_json
from service.schemas import Body
from store.artifacts.large_graphs import LargeGraph, first_repeated, rows_of
from store.settings import Settings

_CHUNK_BYTES = 2**22
_MAX_NUMBER_BYTES = 8
_HEADER_READERS: dict[
    tuple[int, int], Callable[[IO[bytes]], tuple[tuple[int, ...], bool, np.dtype]]
] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
Nodes = NDArray[np.int64]
Features = NDArray[np.float32]
Stored = TypeVar("Stored", np.float32, np.int64)


class LargeForm(StrEnum):
    NPZ = "application/x-npz"
    NDJSON = "application/x-ndjson"


class LargeLine(Body):
    """Some of the nodes, edges or both; nodes are numbered in the order of the lines."""

    x: list[list[Feature]] | None = Field(None, description="Features of the next nodes.")
    edge_index: list[list[int]] | None = Field(
        None,
        description="Sources and targets of some edges. List each edge once, or once per "
        "direction. Edges may refer to nodes of later lines.",
    )


def read_large(
    file: BinaryIO, form: LargeForm, limits: Settings, warnings: InputWarnings | None = None
) -> LargeGraph:
    """Reads and checks an upload; without features every node gets the constant 1."""
    noted = warnings or InputWarnings()
    if form is LargeForm.NPZ:
        x, sources, targets = _read_npz(file, limits, noted)
    else:
        x, sources, targets = _read_ndjson(file, limits)
    if not len(sources):
        reject("/edge_index", "the graph has no edges; the edit budget is a share of its edges")
    lowest = int(min(sources.min(), targets.min()))
    highest = int(max(sources.max(), targets.max()))
    if lowest < 0:
        reject("/edge_index", f"has the node {lowest}; nodes are numbered from 0")
    if x is None:
        _check_count("/edge_index", highest + 1, "nodes", limits.max_large_nodes)
        x = np.ones((highest + 1, 1), dtype=np.float32)
        noted.constant_features = True
    if highest >= len(x):
        reject("/edge_index", f"has the node {highest}; the nodes are 0 to {len(x) - 1:,}")
    loops = sources[sources == targets]
    if len(loops):
        reject("/edge_index", f"has a self-loop of node {loops[0]}")
    repeated = first_repeated(sources, targets)
    if repeated is not None:
        source, target = repeated
        reject("/edge_index", f"the edge from {source} to {target} is listed twice")
    graph = rows_of(x, sources, targets)
    _check_count("/edge_index", graph.edge_count, "edges", limits.max_large_edges)
    return graph


def _read_npz(
    file: BinaryIO, limits: Settings, warnings: InputWarnings
) -> tuple[Features | None, Nodes, Nodes]:
    """Reads `edge_index` [2, edge] and, if there are features, `x` [node, feature]."""
    x = None
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            for name in ("edge_index.npy", "x.npy"):
                if names.count(name) > 1:
                    reject("", f"the archive has {name} more than once")
            _check_unread(names, warnings)
            if "edge_index.npy" not in names:
                reject("/edge_index", "is required: an integer array of two rows")
            with archive.open("edge_index.npy") as member:
                header = _read_header(member, "/edge_index", "iu")
                _check_edge_shape(header.shape, limits)
                sources, targets = _read_array(member, header, np.empty(header.count, np.int64))
            if "x.npy" in names:
                with archive.open("x.npy") as member:
                    header = _read_header(member, "/x", "fiu")
                    _check_feature_shape(header.shape, limits)
                    x = _read_array(member, header, np.empty(header.count, np.float32))
    # A zip bomb does no harm: we read no more bytes of a member than the shape in its header needs.
    except UNREADABLE as error:
        raise InvalidRequestError([Fault("", f"the npz file cannot be read: {error}")]) from error
    return x, sources, targets


def _check_unread(members: list[str], warnings: InputWarnings) -> None:
    """Refuses arrays that would change what the GNN computes; others are left out."""
    names = [member.removesuffix(".npy") for member in members]
    for name in filter(is_edge_value, names):
        reject(f"/{name}", "is not read: edges of large graphs have no attributes or weights")
    if "x" not in names and (features := [name for name in names if is_feature_name(name)]):
        reject(f"/{features[0]}", "is not read; the features of nodes are called `x`")
    warnings.add_unread("graph", (name for name in names if name not in ("edge_index", "x")))


@dataclass(frozen=True)
class _Header:
    at: str  # pointer for messages
    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]

    @property
    def count(self) -> int:
        return math.prod(self.shape)


def _read_header(member: IO[bytes], at: str, kinds: str) -> _Header:
    try:
        version = np.lib.format.read_magic(member)
        if version not in _HEADER_READERS:
            reject(at, f"is a .npy array of version {version}; expected version 1.0 or 2.0")
        shape, is_fortran, dtype = _HEADER_READERS[version](member)
    except (ValueError, SyntaxError, TokenError, RecursionError, MemoryError) as error:
        # NumPy parses the header as a Python literal, which can raise any of these.
        reason = str(error) or type(error).__name__
        raise InvalidRequestError([Fault(at, f"is not a .npy array: {reason}")]) from error
    if dtype.kind not in kinds or dtype.itemsize > _MAX_NUMBER_BYTES or dtype.hasobject:
        numbers = "integers" if kinds == "iu" else "integers or floats"
        bits = 8 * _MAX_NUMBER_BYTES
        reject(at, f"is an array of {dtype}; expected {numbers} of at most {bits} bits")
    if min(shape, default=0) < 0:
        reject(at, f"has the shape {list(shape)}; sizes must not be negative")
    return _Header(at, shape, is_fortran, dtype)


def _read_array(member: IO[bytes], header: _Header, out: NDArray[Stored]) -> NDArray[Stored]:
    """Fills `out` chunk by chunk, so that memory does not depend on the type that was sent."""
    width = header.dtype.itemsize
    for first in range(0, len(out), _CHUNK_BYTES // width):
        chunk = out[first : first + _CHUNK_BYTES // width]
        data = member.read(len(chunk) * width)
        if len(data) < len(chunk) * width:
            total = len(out) * width
            reject(header.at, f"has {first * width + len(data):,} bytes; expected {total:,}")
        values = np.frombuffer(data, header.dtype)
        _check_range(header.at, values, out.dtype)
        chunk[:] = values
    if header.is_fortran:
        return np.ascontiguousarray(out.reshape(header.shape[::-1]).T)
    return out.reshape(header.shape)


def _check_range(at: str, values: NDArray[Any], stored: np.dtype[Any]) -> None:
    if stored.kind == "f":
        if not (np.abs(values.astype(np.float64, copy=False)) <= MAX_FLOAT32).all():
            reject(at, "has values that are not finite or exceed single precision")
    elif values.dtype.kind == "u" and int(values.max(initial=0)) >> 63:
        reject(at, "has numbers of more than 63 bits")


def _check_edge_shape(shape: tuple[int, ...], limits: Settings) -> None:
    if len(shape) != 2 or shape[0] != 2:
        reject("/edge_index", f"has the shape {list(shape)}; expected two rows")
    _check_count("/edge_index", shape[1], "listed edges", 2 * limits.max_large_edges)


def _check_feature_shape(shape: tuple[int, ...], limits: Settings) -> None:
    if len(shape) != 2:
        reject("/x", f"has the shape {list(shape)}; expected [node, feature]")
    nodes, features = shape
    if nodes < 1:
        reject("/x", "the graph has no nodes")
    if not 1 <= features <= limits.max_features:
        reject("/x", f"a node has {features:,} features; expected 1 to {limits.max_features:,}")
    _check_count("/x", nodes, "nodes", limits.max_large_nodes)
    _check_count("/x", nodes * features, "feature values", limits.max_large_values)


def _read_ndjson(file: BinaryIO, limits: Settings) -> tuple[Features | None, Nodes, Nodes]:
    xs: list[Features] = []
    sources: list[Nodes] = []
    targets: list[Nodes] = []
    node_count = listed_edges = 0
    for at, line in _lines(file, limits):
        if line.x:
            node_count += len(line.x)
            width = len(line.x[0]) if not xs else xs[0].shape[1]
            for row, values in enumerate(line.x):
                if len(values) != width:
                    detail = f"has {len(values):,} features; the first node has {width:,}"
                    reject(f"{at}/x/{row}", detail)
            _check_feature_shape((node_count, width), limits)
            xs.append(np.array(line.x, dtype=np.float32).reshape(-1, width))
        if line.edge_index is not None:
            rows = line.edge_index
            if len(rows) != 2 or len(rows[0]) != len(rows[1]):
                reject(f"{at}/edge_index", "should be two arrays of the same length")
            listed_edges += len(rows[0])
            max_listed = 2 * limits.max_large_edges
            _check_count(f"{at}/edge_index", listed_edges, "listed edges", max_listed)
            sources.append(np.array(rows[0], dtype=np.int64))
            targets.append(np.array(rows[1], dtype=np.int64))
    empty = np.empty(0, dtype=np.int64)  # `concatenate` needs at least one array
    x = np.concatenate(xs) if xs else None
    return x, np.concatenate([empty, *sources]), np.concatenate([empty, *targets])


def _lines(file: BinaryIO, limits: Settings) -> Iterator[tuple[str, LargeLine]]:
    """The non-empty lines, each with its pointer: `/0`, `/1`, …"""
    max_bytes = limits.max_body_bytes
    number = 0
    while line := file.readline(max_bytes + 1):
        at = f"/{number}"
        number += 1
        if len(line) > max_bytes:
            reject(at, f"the line is longer than {max_bytes:,} bytes; use more, shorter lines")
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


def _check_count(at: str, sent: int, what: str, allowed: int) -> None:
    if sent > allowed:
        reject(at, too_many(sent, what, allowed))
