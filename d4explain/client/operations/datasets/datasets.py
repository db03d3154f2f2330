"""Requests about reference sets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Unpack

from d4explain.client.graph_formats.posted_graphs import Graphs
from d4explain.client.operations.datasets.dataset_requests import create_dataset
from d4explain.client.operations.datasets.large_graph_upload import upload_large_graph
from d4explain.client.operations.resource_paths import (
    DatasetReference,
    GnnReference,
    dataset_path,
    reference_of,
)
from d4explain.client.options import ListFilters, Metadata, list_query
from d4explain.client.resources import Dataset
from d4explain.client.transport.http_transport import HttpTransport
from d4explain.client.transport.operation import Listing, Operation


class DatasetOperations:
    _transport: HttpTransport

    @Operation
    async def create_dataset(
        self,
        name: str,
        graphs: Graphs,
        gnn: GnnReference | None = None,
        *,
        metadata: Metadata | None = None,
        idempotency_key: str | None = None,
    ) -> Dataset:
        """Create a version of a reference set.

        `gnn` provides the featuriser if the graphs are SMILES, and the names of labels. A request
        with the same `idempotency_key` and graphs returns the same version.
        """
        reference = None if gnn is None else reference_of(gnn)
        return await create_dataset(
            self._transport,
            name,
            graphs,
            reference,
            metadata=metadata,
            idempotency_key=idempotency_key,
        )

    @Operation
    async def dataset_graphs(
        self, dataset: DatasetReference, *, offset: int = 0, limit: int = 20
    ) -> list[dict[str, Any]]:
        """Some graphs of a reference set, in a form that can be posted again."""
        path = f"{dataset_path(dataset)}/graphs"
        page = await self._transport.get(path, offset=offset, limit=limit)
        return [
            {"smiles": item["smiles"]} if item["graph"] is None else item["graph"]
            for item in page["graphs"]
        ]

    @Operation
    async def upload_large_graph(
        self,
        name: str,
        file: Path,
        features: Path | None = None,
        metadata: Metadata | None = None,
    ) -> Dataset:
        """Upload one large graph (.npz, .ndjson or .parquet) to explain its nodes.

        A Parquet file is an edge list with the integer columns `source` and `target`. `features` is
        then a second Parquet file with one row per node, ordered by node number. It has a list
        column `x`, or one numeric column per feature.
        """
        return await upload_large_graph(self._transport, name, file, features, metadata)

    @Operation
    async def dataset(self, dataset: DatasetReference) -> Dataset:
        """One reference set, by `set_…`, `name@2`, or `name` for its newest version."""
        return Dataset.model_validate(await self._transport.get(dataset_path(dataset)))

    @Listing
    async def datasets(
        self, name: str | None = None, **filters: Unpack[ListFilters]
    ) -> AsyncIterator[Dataset]:
        """All reference sets, or those of one name or of filters; newest first."""
        async for item in self._transport.items("/v1/datasets", name=name, **list_query(filters)):
            yield Dataset.model_validate(item)

    @Operation
    async def delete_dataset(self, dataset: DatasetReference) -> None:
        """Delete a reference set and what was trained for it; refused while a job uses it."""
        await self._transport.send("DELETE", dataset_path(dataset))
