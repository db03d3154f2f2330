"""Converts Parquet files (an edge list and node features) to the npz file that the API reads.

The client does this, so that the API needs no pyarrow and parses no untrusted Parquet. pyarrow is
an extra; the first file imports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from d4explain.errors import D4Error

_EDGE_COLUMNS = ("source", "target")
_BATCH_VALUES = 2**18  # numbers per batch, over all columns
_BUFFER_BYTES = 2**16  # per column
_EXPECTED_FEATURES = "features are one list column x of numbers, or columns of numbers"


class ParquetError(D4Error):
    """A file does not contain a large graph, or pyarrow is not installed."""


@contextmanager
def as_npz(edges: Path, features: Path | None) -> Iterator[Path]:
    """A temporary npz file with the edge list and, if given, the node features."""
    with TemporaryDirectory(prefix="d4explain-") as folder:
        npz = Path(folder) / "graph.npz"
        _write(npz, edges, features)
        yield npz


def _write(npz: Path, edges: Path, features: Path | None) -> None:
    """Separate from `as_npz`, so that the arrays are freed before the upload."""
    if features is None:
        np.savez(npz, edge_index=read_edges(edges))
    else:
        np.savez(npz, edge_index=read_edges(edges), x=read_features(features))


def read_edges(path: Path) -> NDArray[np.int64]:
    """[2, edge], from the integer columns `source` and `target`."""
    arrow = _pyarrow()
    with _open_parquet(path) as file:
        schema = file.schema_arrow
        if sorted(schema.names) != sorted(_EDGE_COLUMNS):
            raise ParquetError(
                f"{path.name} has {_describe_columns(schema)}; "
                "an edge list has the columns source and target and no others"
            )
        for field in schema:
            if not arrow.types.is_integer(field.type):
                raise ParquetError(
                    f"{path.name}: the column {field.name} is {field.type}; expected integers"
                )
        edges = np.empty((2, file.metadata.num_rows), dtype=np.int64)
        for first, batch in _batches(file, len(_EDGE_COLUMNS)):
            for row, end in zip(edges, _EDGE_COLUMNS, strict=True):
                column = _require_no_nulls(batch.column(end), end, path, first)
                # The cast rejects numbers of more than 63 bits.
                row[first : first + len(batch)] = column.cast(arrow.int64()).to_numpy()
    return edges


def read_features(path: Path) -> NDArray[np.float32]:
    """[node, feature], from the list column `x`, or from numeric columns in their order."""
    with _open_parquet(path) as file:
        has_lists = _has_list_column(file.schema_arrow, path)
        width = _first_list_length(file, path) if has_lists else len(file.schema_arrow)
        x = np.empty((file.metadata.num_rows, width), dtype=np.float32)
        for first, batch in _batches(file, width):
            rows = x[first : first + len(batch)]
            if has_lists:
                lists = _require_no_nulls(batch.column(0), "x", path, first)
                _copy_as_float32(rows.reshape(-1), _list_values(lists, width, path, first))
            else:
                for number, name in enumerate(batch.schema.names):
                    _copy_as_float32(
                        rows[:, number], _require_no_nulls(batch.column(number), name, path, first)
                    )
    return x


def _has_list_column(schema: Any, path: Path) -> bool:
    """True for a list column, False for numeric columns; rejects anything else."""
    if not len(schema):
        raise ParquetError(f"{path.name} has no columns; {_EXPECTED_FEATURES}")
    indices = (schema.pandas_metadata or {}).get("index_columns", [])
    for name in schema.names:
        if name in indices:
            raise ParquetError(
                f"{path.name}: the column {name} is the index of a pandas table, not a feature; "
                "write it with index=False"
            )
    if schema.names == ["x"] and _is_list_of_numbers(schema.field(0).type):
        return True
    for field in schema:
        if not _is_number(field.type):
            raise ParquetError(
                f"{path.name}: the column {field.name} is {field.type}; {_EXPECTED_FEATURES}"
            )
    return False


def _is_number(kind: Any) -> bool:
    types = _pyarrow().types
    return bool(types.is_integer(kind) or types.is_floating(kind))


def _is_list_of_numbers(kind: Any) -> bool:
    types = _pyarrow().types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and _is_number(kind.value_type))


def _first_list_length(file: Any, path: Path) -> int:
    for batch in file.iter_batches(batch_size=1):
        return len(_require_no_nulls(batch.column(0), "x", path, 0)[0])
    return 0


def _list_values(lists: Any, width: int, path: Path, first: int) -> Any:
    """The numbers of all lists; raises if a list has another length than `width`."""
    lengths = _pyarrow().compute.list_value_length(lists).to_numpy()
    others = np.flatnonzero(lengths != width)
    if len(others):
        raise ParquetError(
            f"{path.name}: x has {lengths[others[0]]:,} numbers in row {first + others[0]:,}; "
            f"in row 0 it has {width:,}"
        )
    values = lists.flatten()
    if values.null_count:
        row = first + _first_null(values) // width
        raise ParquetError(
            f"{path.name}: x has a null in the list of row {row:,}; nulls are not allowed"
        )
    return values


def _copy_as_float32(target: NDArray[np.float32], values: Any) -> None:
    # Values too large for float32 become infinite, and the API rejects those.
    with np.errstate(over="ignore"):
        target[:] = values.to_numpy()


def _require_no_nulls(column: Any, name: str, path: Path, first: int) -> Any:
    if column.null_count:
        row = first + _first_null(column)
        raise ParquetError(
            f"{path.name}: the column {name} is null in row {row:,}; nulls are not allowed"
        )
    return column


def _first_null(values: Any) -> int:
    return int(values.is_null().to_numpy(zero_copy_only=False).argmax())


def _batches(file: Any, width: int) -> Iterator[tuple[int, Any]]:
    """Batches of rows, each with the number of its first row."""
    first = 0
    for batch in file.iter_batches(batch_size=max(1, _BATCH_VALUES // max(1, width))):
        yield first, batch
        first += len(batch)
    if first != file.metadata.num_rows:
        raise ValueError(f"it has {first:,} rows, its metadata says {file.metadata.num_rows:,}")


@contextmanager
def _open_parquet(path: Path) -> Iterator[Any]:
    arrow = _pyarrow()
    # By default, pyarrow loads a whole row group into memory, possibly the whole table.
    low_memory = {"buffer_size": _BUFFER_BYTES, "pre_buffer": False}
    try:
        with arrow.parquet.ParquetFile(path, **low_memory) as file:
            yield file
    # Damaged files raise these in pyarrow, or in NumPy if the metadata has a wrong size.
    except (arrow.ArrowException, ValueError, OSError, MemoryError) as error:
        raise ParquetError(f"{path.name} cannot be read: {error}") from error


def _describe_columns(schema: Any) -> str:
    return f"the columns {', '.join(schema.names)}" if len(schema) else "no columns"


def _pyarrow() -> Any:
    try:
        import pyarrow.compute  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError as error:
        raise ParquetError(
            'Parquet files need pyarrow, which is not installed: pip install "d4explain[parquet]"'
        ) from error
    return pyarrow
