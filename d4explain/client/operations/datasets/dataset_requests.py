"""Creates reference sets."""

from __future__ import annotations

from typing import Any

from d4explain.client.graph_formats.posted_graphs import Graphs, graph_list
from d4explain.client.operations.resource_paths import checked_name
from d4explain.client.options import Metadata
from d4explain.client.resources import Dataset
from d4explain.client.transport.http_transport import HttpTransport, idempotency_header


async def create_dataset(
    transport: HttpTransport,
    name: str,
    graphs: Graphs,
    gnn: str | None,
    *,
    idempotency_key: str | None = None,
    metadata: Metadata | None = None,
) -> Dataset:
    """See `Client.create_dataset`."""
    body: dict[str, Any] = {"name": checked_name(name), "graphs": graph_list(graphs)}
    if gnn is not None:
        body["gnn"] = gnn
    if metadata:
        body["metadata"] = dict(metadata)
    headers = idempotency_header(idempotency_key)
    answer = await transport.send("POST", "/v1/datasets", json=body, headers=headers)
    return Dataset.model_validate(answer.json())
