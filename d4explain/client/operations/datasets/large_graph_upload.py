"""Uploads one large graph from a file."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

from d4explain.client.graph_formats.parquet import as_npz
from d4explain.client.operations.resource_paths import checked_name
from d4explain.client.options import Metadata
from d4explain.client.resources import Dataset
from d4explain.client.transport.connections import FileChunks
from d4explain.client.transport.http_transport import HttpTransport

UPLOAD_SECONDS = 600.0  # the API answers after it has read the whole graph
_CONTENT_TYPES = {".npz": "application/x-npz", ".ndjson": "application/x-ndjson"}
_PARQUET = ".parquet"  # converted to npz before the upload


async def upload_large_graph(
    transport: HttpTransport,
    name: str,
    file: Path,
    features: Path | None = None,
    metadata: Metadata | None = None,
) -> Dataset:
    """See `Client.upload_large_graph`."""
    query = {"name": checked_name(name)}
    if metadata:
        query["metadata"] = json.dumps(dict(metadata))
    if features is not None and {file.suffix, features.suffix} != {_PARQUET}:
        raise ValueError(
            f"features need a {_PARQUET} file next to a {_PARQUET} edge list; "
            f"got {features.name} next to {file.name}"
        )
    if file.suffix == _PARQUET:
        with ExitStack() as files:
            npz = await transport.connection.call(files.enter_context, as_npz(file, features))
            return await _upload(transport, query, npz)
    return await _upload(transport, query, file)


async def _upload(transport: HttpTransport, query: dict[str, str], file: Path) -> Dataset:
    if file.suffix not in _CONTENT_TYPES:
        *others, last = *_CONTENT_TYPES, _PARQUET
        supported = f"{', '.join(others)} and {last}"
        raise ValueError(f"{file.name} is not supported; large graphs are {supported} files")
    answer = await transport.send(
        "POST",
        "/v1/datasets/large",
        params=query,
        content=FileChunks(file),
        headers={"Content-Type": _CONTENT_TYPES[file.suffix]},
        timeout=UPLOAD_SECONDS,
    )
    return Dataset.model_validate(answer.json())
