"""Uploads of large graphs as .npz and NDJSON."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile
from typing import Any, Literal

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.graph_io import large_graph_reader
from service.graph_io.large_graph_reader import LargeForm, read_large
from service.graph_io.unread_attributes import InputWarnings
from service.http.faults import InvalidRequestError
from store.settings import Settings

NPZ, NDJSON = LargeForm.NPZ.value, LargeForm.NDJSON.value


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def ndjson(*lines: dict[str, Any]) -> bytes:
    return b"\n".join(json.dumps(line).encode() for line in lines)


def low_limits(**changes: Any) -> Settings:
    limits = {"max_large_nodes": 50, "max_large_edges": 60, "max_large_values": 120}
    return Settings(**{**limits, "max_body_bytes": 2000, "max_features": 4, **changes})


@st.composite
def edge_lists(draw: st.DrawFn) -> tuple[nx.Graph, list[tuple[int, int]]]:
    """A graph and its edges in random order, some of them in both directions."""
    nodes = draw(st.integers(2, 20))
    graph = nx.gnm_random_graph(nodes, draw(st.integers(1, 40)), seed=draw(st.integers(0, 99)))
    if not graph.number_of_edges():
        graph.add_edge(0, 1)
    edges = list(graph.edges)
    reversed_edges = draw(st.lists(st.sampled_from(edges), unique=True))
    both = [*edges, *((target, source) for source, target in reversed_edges)]
    return graph, draw(st.permutations(both))


@settings(max_examples=60, deadline=None)
@given(graph_and_edges=edge_lists(), form=st.sampled_from(list(LargeForm)), cuts=st.integers(1, 5))
def test_rows_equal_the_neighbours_in_networkx(
    graph_and_edges: tuple[nx.Graph, list[tuple[int, int]]], form: LargeForm, cuts: int
) -> None:
    graph, edges = graph_and_edges
    x = np.arange(2.0 * len(graph)).reshape(-1, 2)
    index = np.array(edges).T
    if form is LargeForm.NPZ:
        body = npz(edge_index=index, x=np.asfortranarray(x))
    else:
        parts = np.array_split(index, cuts, axis=1)
        rows = np.array_split(x, cuts)
        lines = zip(parts, rows, strict=True)
        body = ndjson(*({"edge_index": p.tolist(), "x": r.tolist()} for p, r in lines))
    read = read_large(io.BytesIO(body), form, Settings())
    assert read.edge_count == graph.number_of_edges()
    assert np.array_equal(read.x, x)
    for node in graph:
        row = read.neighbours[read.starts[node] : read.starts[node + 1]]
        assert row.tolist() == sorted(graph[node])


def with_wrong_shape(shape: tuple[int, ...], content: bytes = b"") -> bytes:
    """An npz whose edge_index declares a wrong shape."""
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        array, {"descr": "<i8", "fortran_order": False, "shape": shape}
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("edge_index.npy", array.getvalue() + content)
    return file.getvalue()


def with_nested_header(depth: int) -> bytes:
    """An npz whose header has `depth` open brackets; NumPy parses the header as Python."""
    header = b"(" * depth
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        magic = np.lib.format.magic(1, 0)
        archive.writestr("edge_index.npy", magic + len(header).to_bytes(2, "little") + header)
    return file.getvalue()


EDGES = [[0, 1], [1, 2]]
ROWS = [[1.0]] * 3
INVALID: list[tuple[str, bytes, str, str]] = [
    (NDJSON, b"", "/edge_index", "no edges"),
    (NDJSON, b"{", "/0", "not JSON"),
    (NDJSON, b'{"x": [[1]]}\n[]', "/1", "object"),
    (NDJSON, b'{"x": [[NaN]]}', "/0/x/0/0", "finite"),
    (NDJSON, b'{"x": [["1"]]}', "/0/x/0/0", "number"),
    (NDJSON, ndjson({"x": [[1.0], [1.0, 2.0]]}), "/0/x/1", "2 features"),
    (NDJSON, ndjson({"x": [[1.0]]}, {"x": [[1.0, 2.0]]}), "/1/x/0", "2 features"),
    (NDJSON, ndjson({"x": [[]]}), "/x", "0 features"),
    (NDJSON, ndjson({"x": ROWS, "edge_index": [[0], [3]]}), "/edge_index", "node 3"),
    (NDJSON, ndjson({"x": ROWS, "edge_index": [[0], [-1]]}), "/edge_index", "node -1"),
    (NDJSON, ndjson({"x": ROWS, "edge_index": [[0]]}), "/0/edge_index", "two arrays"),
    (NDJSON, ndjson({"x": ROWS, "edge_index": [[1], [1]]}), "/edge_index", "self-loop of node 1"),
    (NDJSON, ndjson({"edge_index": [[0, 0], [1, 1]]}), "/edge_index", "0 to 1 is listed twice"),
    (NDJSON, ndjson({"edge_index": [[0], [50]]}), "/edge_index", "51 nodes"),
    (NDJSON, ndjson({"edge_index": [[0] * 121, [1] * 121]}), "/0/edge_index", "121 listed edges"),
    (NDJSON, ndjson({"x": [[1.0] * 4] * 31}), "/x", "124 feature values"),
    (NDJSON, ndjson({"x": [[1.0]] * 400}), "/0", "longer than"),
    (NPZ, b"PK", "", "cannot be read"),
    (NPZ, with_nested_header(100), "/edge_index", "not a .npy array"),
    (NPZ, with_nested_header(9_000), "/edge_index", "not a .npy array"),
    (NPZ, with_wrong_shape((2, -3)), "/edge_index", "must not be negative"),
    (NPZ, with_wrong_shape((2, 3), b"12345678"), "/edge_index", "has 8 bytes; expected 48"),
    (NPZ, npz(x=np.ones((3, 1))), "/edge_index", "is required"),
    (NPZ, npz(edge_index=np.array(EDGES, object)), "/edge_index", "object"),
    (NPZ, npz(edge_index=np.array(EDGES, float)), "/edge_index", "integers"),
    (NPZ, npz(edge_index=np.array([[0, 1]])), "/edge_index", "[1, 2]"),
    (NPZ, npz(edge_index=np.array([[2**63], [0]], np.uint64)), "/edge_index", "63 bits"),
    (NPZ, npz(edge_index=np.zeros((2, 10**6), np.int8)), "/edge_index", "1,000,000 listed"),
    (NPZ, npz(edge_index=np.array(EDGES), x=np.ones((10**5, 4))), "/x", "100,000 nodes"),
    (NPZ, npz(edge_index=np.array(EDGES), x=np.full((3, 1), 1e39)), "/x", "not finite"),
    (NPZ, npz(edge_index=np.array(EDGES), x=np.full((3, 1), np.inf)), "/x", "not finite"),
    (NPZ, npz(edge_index=np.array(EDGES), x=np.ones(3)), "/x", "[node, feature]"),
    (NPZ, npz(edge_index=np.array(EDGES), x=np.ones((3, 1), np.longdouble)), "/x", "64 bits"),
    (NPZ, npz(edge_index=np.array(EDGES), x=np.ones((3, 1), bool)), "/x", "integers or floats"),
]


@pytest.mark.parametrize("number", ["<f2", "<f4", ">f8", "i1", "<u4", ">i8", "<u8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numbers_of_every_type_are_read_in_chunks(
    number: str, order: Literal["C", "F"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_graph_reader, "_CHUNK_BYTES", 24)
    x = np.arange(40).reshape(20, 2).astype(number, order=order)
    edges = np.array([range(19), range(1, 20)]).astype("i2", order=order)
    read = read_large(io.BytesIO(npz(edge_index=edges, x=x)), LargeForm.NPZ, Settings())
    assert np.array_equal(read.x, x)
    assert read.x.dtype == np.float32
    assert read.edge_count == 19


def test_the_reader_needs_no_more_memory_than_its_result() -> None:
    x = np.zeros((1_000_000, 8))
    body = npz(edge_index=np.array(EDGES), x=x)
    assert len(body) < 100_000
    tracemalloc.start()
    try:
        read = read_large(io.BytesIO(body), LargeForm.NPZ, Settings())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read.x.nbytes == x.nbytes / 2
    assert peak < x.nbytes


@pytest.mark.parametrize("case", INVALID, ids=lambda case: case[3])
def test_an_invalid_upload_is_refused_with_a_pointer(case: tuple[str, bytes, str, str]) -> None:
    form, body, pointer, message = case
    with pytest.raises(InvalidRequestError) as refused:
        read_large(io.BytesIO(body), LargeForm(form), low_limits())
    assert refused.value.faults[0].at == pointer
    assert message in refused.value.faults[0].detail


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ("edge_weight", "/edge_weight: is not read: edges of large graphs have no attributes"),
        ("edge_attr", "/edge_attr: is not read"),
        ("features", "/features: is not read; the features of nodes are called `x`"),
    ],
)
def test_arrays_that_would_change_the_answer_are_refused(array: str, message: str) -> None:
    data = npz(edge_index=np.array([[0], [1]]), **{array: np.ones((2, 1))})
    with pytest.raises(InvalidRequestError, match=message):
        read_large(io.BytesIO(data), LargeForm.NPZ, low_limits())


def test_other_arrays_are_left_out_and_named() -> None:
    data = npz(edge_index=np.array([[0], [1]]), y=np.ones(2), train_mask=np.ones(2))
    warnings = InputWarnings()
    assert read_large(io.BytesIO(data), LargeForm.NPZ, low_limits(), warnings).edge_count == 1
    assert warnings.texts == [
        'these attributes of graphs are not read and were left out: "y", "train_mask"',
        "nodes have no features (`x`); each of them has the feature 1",
    ]
