"""Large graphs from Parquet files arrive exactly like the same graphs from npz files."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from d4explain import Client, RefusedError
from d4explain.cli.main import main
from d4explain.client.graph_formats.parquet import ParquetError, read_edges, read_features

pa = pytest.importorskip("pyarrow", reason="Parquet needs the parquet extra")
pq = pytest.importorskip("pyarrow.parquet", reason="Parquet needs the parquet extra")

EDGES = np.array([[0, 1, 2, 4], [1, 2, 3, 0]])
X = np.arange(10.0).reshape(5, 2) / 3
LISTS = {"x": list(X)}
COLUMNS = {"weight": X[:, 0], "age": X[:, 1]}
MANY = 300_000  # rows, more than one batch


def write_parquet(file: Path, columns: Any, **options: Any) -> Path:
    pq.write_table(pa.table(columns), file, **options)
    return file


def edge_columns(edges: Any) -> dict[str, Any]:
    return dict(zip(("source", "target"), edges, strict=True))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files; the client must leave none there."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_parquet_and_npz_give_the_same_dataset(
    served: Any, tmp_path: Path, temporary: Path
) -> None:
    edges = write_parquet(tmp_path / "edges.parquet", edge_columns(EDGES), row_group_size=3)
    np.savez(tmp_path / "bare.npz", edge_index=EDGES)
    np.savez(tmp_path / "whole.npz", edge_index=EDGES, x=X)
    forms = {
        "lists": LISTS,
        "large lists": {"x": pa.array(list(X), pa.large_list(pa.float64()))},
        "fixed lists": {"x": pa.array(list(X), pa.list_(pa.float32(), 2))},
        "columns": COLUMNS,
    }
    with Client(str(served.client.base_url)) as client:
        bare = client.upload_large_graph("web", tmp_path / "bare.npz").id
        whole = client.upload_large_graph("web", tmp_path / "whole.npz").id
        sent = client.upload_large_graph("web", edges).id
        assert digest(served, sent) == digest(served, bare)
        for name, columns in forms.items():
            table = write_parquet(tmp_path / f"{name}.parquet", columns, row_group_size=2)
            sent = client.upload_large_graph("web", edges, table).id
            assert digest(served, sent) == digest(served, whole) != digest(served, bare)
    assert not list(temporary.iterdir())


def digest(served: Any, dataset: str) -> str:
    return str(served.client.get(f"/v1/datasets/{dataset}").json()["sha256"])


def test_the_command_line_takes_features(
    served: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edges = str(write_parquet(tmp_path / "edges.parquet", edge_columns(EDGES)))
    table = str(write_parquet(tmp_path / "nodes.parquet", COLUMNS))
    url = str(served.client.base_url)
    with pytest.raises(SystemExit) as ended:
        main(("upload", edges, "--features", table, "--name", "web", "--url", url))
    assert not ended.value.code
    assert "5 nodes, 4 edges" in capsys.readouterr().out
    with Client(url) as client:
        assert next(client.datasets()).features == 2


INTEGERS = [np.dtype(f"{sign}{size}") for sign in "iu" for size in (1, 2, 4, 8)]
SMALL = st.integers(0, 200)


@st.composite
def edge_lists(draw: st.DrawFn) -> dict[str, Any]:
    """Two columns of as many integers, each of its own type."""
    rows = draw(SMALL)
    found = {}
    for end in draw(st.permutations(["source", "target"])):
        kind = draw(st.sampled_from(INTEGERS))
        numbers = st.integers(np.iinfo(kind).min, min(np.iinfo(kind).max, 2**63 - 1))
        found[end] = draw(arrays.arrays(kind, rows, elements=numbers))
    return found


@settings(max_examples=80, deadline=None)
@given(
    columns=edge_lists(),
    group=st.integers(1, 250),
    packing=st.sampled_from(["none", "snappy", "zstd"]),
    version=st.sampled_from(["1.0", "2.4", "2.6"]),
)
def test_any_edge_list_is_read_correctly(
    columns: dict[str, Any], group: int, packing: str, version: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        options = {"row_group_size": group, "compression": packing, "version": version}
        read = read_edges(write_parquet(Path(folder) / "edges.parquet", columns, **options))
    assert read.dtype == np.int64
    assert np.array_equal(read[0], columns["source"])
    assert np.array_equal(read[1], columns["target"])


@settings(max_examples=40, deadline=None)
@given(
    x=arrays.arrays(
        st.sampled_from([np.float16, np.float32, np.float64, np.int64, np.uint8]),
        st.tuples(st.integers(1, 60), st.integers(1, 5)),
    ),
    group=st.integers(1, 70),
)
def test_any_features_are_read_correctly_in_both_forms(x: Any, group: int) -> None:
    with np.errstate(over="ignore"):
        single = x.astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "nodes.parquet"
        # Duplicate column names are allowed: the position of a column decides.
        table = pa.table(list(x.T), names=["same"] * x.shape[1])
        pq.write_table(table, file, row_group_size=group)
        assert np.array_equal(read_features(file), single, equal_nan=True)
        write_parquet(file, {"x": list(x)}, row_group_size=group)
        assert np.array_equal(read_features(file), single, equal_nan=True)


def test_files_of_many_row_groups_are_read_in_order(tmp_path: Path) -> None:
    edges = np.arange(2 * MANY).reshape(2, MANY)
    x = edges.T.astype(np.float32)
    for group in (70_000, MANY):
        file = write_parquet(tmp_path / "edges.parquet", edge_columns(edges), row_group_size=group)
        assert np.array_equal(read_edges(file), edges)
        columns = {"a": x[:, 0], "b": x[:, 1]}
        file = write_parquet(tmp_path / "nodes.parquet", columns, row_group_size=group)
        assert np.array_equal(read_features(file), x)
        lists = pa.FixedSizeListArray.from_arrays(x.reshape(-1), 2).cast(pa.list_(pa.float32()))
        file = write_parquet(tmp_path / "nodes.parquet", {"x": lists}, row_group_size=group)
        assert np.array_equal(read_features(file), x)


def test_rows_are_counted_from_the_beginning_of_the_file(tmp_path: Path) -> None:
    numbers: list[int | None] = list(range(MANY))
    numbers[MANY - 7] = None
    file = write_parquet(tmp_path / "edges.parquet", edge_columns([range(MANY), numbers]))
    with pytest.raises(ParquetError, match="target is null in row 299,993"):
        read_edges(file)
    with pytest.raises(ParquetError, match="source is null in row 299,993"):
        read_features(write_parquet(file, {"source": numbers}))


WRONG_EDGES: list[tuple[dict[str, Any], str]] = [
    ({}, "has no columns; an edge list has the columns source and target and no others"),
    ({"source": [0], "dst": [1]}, "has the columns source, dst; an edge list has"),
    ({"source": [0], "target": [1], "w": [1]}, "has the columns source, target, w;"),
    ({"source": [0.0], "target": [1]}, "the column source is double; expected integers"),
    ({"source": [0], "target": ["1"]}, "the column target is string; expected integers"),
    ({"source": [0], "target": [True]}, "the column target is bool; expected integers"),
    (
        {"source": [0, None], "target": [1, 2]},
        "the column source is null in row 1; nulls are not allowed",
    ),
    (edge_columns([np.array([2**63], np.uint64), [0]]), "not in range"),
]
NULL_IN_LIST = pa.array([[1.0, 2.0], [3.0, None]], pa.list_(pa.float32()))
WRONG_FEATURES: list[tuple[dict[str, Any], str]] = [
    ({}, "has no columns; features are one list column x of numbers, or columns of numbers"),
    ({"a": [1.0], "b": ["red"]}, "the column b is string; features are"),
    ({"a": [True]}, "the column a is bool; features are"),
    ({"values": [[1.0]]}, "the column values is list<element: double>; features are"),
    ({"x": [[1.0]], "b": [1.0]}, "the column x is list<element: double>; features are"),
    ({"x": [["red"]]}, "the column x is list<element: string>; features are"),
    ({"x": [[1.0, 2.0], [3.0]]}, "x has 1 numbers in row 1; in row 0 it has 2"),
    ({"x": [None, [1.0]]}, "the column x is null in row 0; nulls are not allowed"),
    ({"x": [[1.0], None]}, "the column x is null in row 1; nulls are not allowed"),
    ({"x": NULL_IN_LIST}, "x has a null in the list of row 1; nulls are not allowed"),
    ({"a": [1.0, None]}, "the column a is null in row 1; nulls are not allowed"),
]


def fail_on_request(request: httpx.Request) -> httpx.Response:
    raise AssertionError(f"the client sent a request to {request.url}")


def refusal(edges: Path, features: Path | None = None) -> str:
    """The error message of the client, which must not send a request."""
    client = Client("http://api", transport=httpx.MockTransport(fail_on_request))
    with client, pytest.raises((ParquetError, ValueError)) as refused:
        client.upload_large_graph("web", edges, features)
    return str(refused.value)


@pytest.mark.parametrize(("columns", "message"), WRONG_EDGES, ids=lambda case: str(case)[:40])
def test_invalid_edge_lists_are_refused_before_the_upload(
    columns: dict[str, Any], message: str, tmp_path: Path, temporary: Path
) -> None:
    refused = refusal(write_parquet(tmp_path / "web.parquet", columns))
    assert refused.startswith("web.parquet")
    assert message in refused
    assert not list(temporary.iterdir())


@pytest.mark.parametrize(("columns", "message"), WRONG_FEATURES, ids=lambda case: str(case)[:40])
def test_invalid_features_are_refused_before_the_upload(
    columns: dict[str, Any], message: str, tmp_path: Path, temporary: Path
) -> None:
    edges = write_parquet(tmp_path / "web.parquet", edge_columns(EDGES))
    refused = refusal(edges, write_parquet(tmp_path / "nodes.parquet", columns))
    assert refused.startswith("nodes.parquet")
    assert message in refused
    assert not list(temporary.iterdir())


def test_the_index_of_a_pandas_table_is_refused(tmp_path: Path) -> None:
    index = '{"index_columns": ["__index_level_0__"], "columns": []}'
    table = pa.table({"a": [1.0], "__index_level_0__": [7]})
    pq.write_table(table.replace_schema_metadata({"pandas": index}), tmp_path / "n.parquet")
    with pytest.raises(ParquetError, match="index=False"):
        read_features(tmp_path / "n.parquet")
    counted = '{"index_columns": [{"kind": "range", "start": 0, "stop": 1}], "columns": []}'
    table = pa.table({"a": [1.0]}).replace_schema_metadata({"pandas": counted})
    pq.write_table(table, tmp_path / "n.parquet")
    assert read_features(tmp_path / "n.parquet").tolist() == [[1.0]]


def test_the_api_checks_values_and_sizes(served: Any, tmp_path: Path, temporary: Path) -> None:
    edges = write_parquet(tmp_path / "web.parquet", edge_columns(EDGES))
    lists = pa.list_(pa.float32())
    cases: list[tuple[dict[str, Any], str]] = [
        ({"a": [1e39] * 5}, "exceed single precision"),
        ({"a": [float("nan")] * 5}, "not finite"),
        ({"a": [1.0] * 4}, "has the node 4"),
        ({"x": pa.array([[]] * 5, lists)}, "0 features"),
        ({"x": pa.array([], lists)}, "no nodes"),
    ]
    with Client(str(served.client.base_url)) as client:
        for columns, message in cases:
            file = write_parquet(tmp_path / "nodes.parquet", columns)
            with pytest.raises(RefusedError, match=message):
                client.upload_large_graph("web", edges, file)
    assert not list(temporary.iterdir())


def test_damaged_files_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "web.parquet"
    file.write_bytes(b"no such thing")
    with pytest.raises(ParquetError, match=r"web\.parquet cannot be read: "):
        read_edges(file)
    with pytest.raises(ParquetError, match=r"none\.parquet cannot be read: "):
        read_edges(tmp_path / "none.parquet")
    content = write_parquet(file, edge_columns([range(50)] * 2), row_group_size=30).read_bytes()
    fifty, fewer, more = (bytes([0x16, 2 * rows]) for rows in (50, 49, 51))
    assert content.count(fifty) == 1  # a Thrift field of 64 bits: the rows of both groups
    for rows in (fewer, more):
        file.write_bytes(content.replace(fifty, rows))
        with pytest.raises(ParquetError, match=r"web\.parquet cannot be read: "):
            read_edges(file)


def test_features_are_accepted_only_with_parquet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edges = write_parquet(tmp_path / "web.parquet", edge_columns(EDGES))
    np.savez(tmp_path / "web.npz", edge_index=EDGES)
    np.savez(tmp_path / "x.npz", x=X)
    assert "got web.parquet next to web.npz" in refusal(tmp_path / "web.npz", edges)
    assert "got x.npz next to web.parquet" in refusal(edges, tmp_path / "x.npz")
    for features, message in (
        ("x.npz", "features need a .parquet file"),
        ("none.parquet", "no such file"),
    ):
        assert message in error_output(capsys, edges, tmp_path / features)


def test_without_pyarrow_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    edges = write_parquet(tmp_path / "web.parquet", edge_columns(EDGES))
    for module in ("pyarrow", "pyarrow.compute", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ParquetError, match=r'pip install "d4explain\[parquet\]"'):
        read_edges(edges)
    assert 'pip install "d4explain[parquet]"' in error_output(capsys, edges)


def test_the_command_line_prints_the_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edges = write_parquet(tmp_path / "web.parquet", {"a": [1]})
    assert "has the columns a;" in error_output(capsys, edges)


def error_output(capsys: pytest.CaptureFixture[str], edges: Path, *features: Path) -> str:
    """The error message of `upload`, which must fail before it sends a request."""
    options = [word for file in features for word in ("--features", str(file))]
    with pytest.raises(SystemExit) as ended:
        main(("upload", str(edges), *options, "--name", "web", "--url", "http://127.0.0.1:9"))
    assert ended.value.code == 1
    message = capsys.readouterr().err
    assert "Traceback" not in message
    return message
