"""Requests about GNNs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from d4explain.client.graph_formats.posted_graphs import Graph, Graphs
from d4explain.client.operations.gnn_registration import (
    JsonSource,
    register_gnn,
    registration_form,
)
from d4explain.client.operations.model_registration import SpecNames, register_model
from d4explain.client.operations.predictions import predict_graphs, predict_nodes
from d4explain.client.operations.resource_paths import GnnReference, alias_path, gnn_path
from d4explain.client.options import ListFilters, Metadata, list_query
from d4explain.client.resources import Gnn
from d4explain.client.transport.http_transport import HttpTransport
from d4explain.client.transport.operation import Listing, Operation
from d4explain.contracts.job_states import GnnState
from d4explain.contracts.results import NodeId, Prediction


class GnnChanges(TypedDict, total=False):
    """What can change after the registration."""

    description: str | None
    tags: Mapping[str, str | None]
    metadata: Mapping[str, str | int | float | bool | None]


class GnnOperations:
    _transport: HttpTransport

    @Operation
    async def register(
        self,
        model: Any,
        sample_graphs: Graphs,
        *,
        name: str,
        class_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        featuriser: Mapping[str, Any] | None = None,
        output: str | None = None,
        description: str | None = None,
        tags: Mapping[str, str] | None = None,
        metadata: Metadata | None = None,
    ) -> Gnn:
        """Export a trained PyG model, check it, register it and store its reference set.

        `sample_graphs` are graphs like those of the training. They become the reference set with
        the same name, which `explain` uses by default. If all have labels, the API also measures
        the accuracy of the GNN on them, or on 256 if there are more. `featuriser`, such as
        {"kind": "smiles", "atoms": ["C", "N", "O"]}, lets you explain SMILES. `output` chooses one
        of several results of the model by position or name. Raises `RejectedGnnError` if the GNN
        fails its checks. Needs pip install 'd4explain[export]'.
        """
        return await register_model(
            self._transport,
            model,
            sample_graphs,
            name=name,
            names=SpecNames(class_names, feature_names, featuriser),
            output=output,
            description=description,
            tags=tags,
            metadata=metadata,
        )

    @Operation
    async def register_gnn(
        self,
        name: str,
        spec: JsonSource,
        weights: bytes | Path,
        *,
        samples: JsonSource | None = None,
        description: str | None = None,
        tags: Mapping[str, str] | None = None,
        metadata: Metadata | None = None,
    ) -> Gnn:
        """Register a version of a GNN and wait for its probe.

        Also returns a rejected GNN, with the report of its probe. `samples` is {"graphs": […]};
        each graph has a label, or labels of its nodes if the GNN classifies nodes.
        """
        form = registration_form(
            name,
            spec=spec,
            weights=weights,
            samples=samples,
            description=description,
            tags=tags,
            metadata=metadata,
        )
        return await register_gnn(self._transport, form)

    @Operation
    async def register_archive(
        self,
        name: str,
        archive: bytes | Path,
        *,
        description: str | None = None,
        tags: Mapping[str, str] | None = None,
        metadata: Metadata | None = None,
    ) -> Gnn:
        """Like `register_gnn`, from a zip file with spec.json and weights.safetensors."""
        form = registration_form(
            name, archive=archive, description=description, tags=tags, metadata=metadata
        )
        return await register_gnn(self._transport, form)

    @Operation
    async def register_black_box(
        self,
        name: str,
        spec: JsonSource,
        predict_url: str,
        *,
        samples: JsonSource | None = None,
        description: str | None = None,
        tags: Mapping[str, str] | None = None,
        metadata: Metadata | None = None,
    ) -> Gnn:
        """Like `register_gnn`, for a GNN behind a URL, if the deployment allows black boxes.

        The spec has `features` and `classes`, but no layers.
        """
        form = registration_form(
            name,
            spec=spec,
            predict_url=predict_url,
            samples=samples,
            description=description,
            tags=tags,
            metadata=metadata,
        )
        return await register_gnn(self._transport, form)

    @Operation
    async def gnn(self, gnn: GnnReference) -> Gnn:
        """One GNN. All methods accept a `Gnn`, `gnn_…`, `name@3`, `name@production` or `name`."""
        return Gnn.model_validate(await self._transport.get(gnn_path(gnn)))

    @Listing
    async def gnns(
        self,
        name: str | None = None,
        *,
        state: GnnState | str | None = None,
        **filters: Unpack[ListFilters],
    ) -> AsyncIterator[Gnn]:
        """All GNNs, or those of one name, a state or filters; newest first."""
        query = {"name": name, "state": state, **list_query(filters)}
        async for item in self._transport.items("/v1/gnns", **query):
            yield Gnn.model_validate(item)

    @Operation
    async def change_gnn(self, gnn: GnnReference, **changes: Unpack[GnnChanges]) -> Gnn:
        """Set `description`, or merge `tags` or `metadata`; a key with None is removed."""
        answer = await self._transport.send("PATCH", gnn_path(gnn), json=changes)
        return Gnn.model_validate(answer.json())

    @Operation
    async def set_alias(self, name: str, alias: str, version: int) -> Gnn:
        """Point `name@alias` at this version."""
        path = alias_path(name, alias)
        answer = await self._transport.send("PUT", path, json={"version": version})
        return Gnn.model_validate(answer.json())

    @Operation
    async def remove_alias(self, name: str, alias: str) -> None:
        """Remove `name@alias`; the GNN stays."""
        await self._transport.send("DELETE", alias_path(name, alias))

    @Operation
    async def delete_gnn(self, gnn: GnnReference) -> None:
        """Delete by id or `name@version`; refused while a job uses it or an alias points at it."""
        await self._transport.send("DELETE", gnn_path(gnn))

    @Operation
    async def predictions(
        self, gnn: GnnReference, graphs: Graphs, metadata: Metadata | None = None
    ) -> list[Prediction]:
        """Predictions of a GNN that classifies graphs; the job gets the metadata."""
        return await predict_graphs(self._transport, gnn, graphs, metadata)

    @Operation
    async def node_predictions(
        self,
        gnn: GnnReference,
        graph: Graph,
        nodes: Sequence[NodeId] | None = None,
        metadata: Metadata | None = None,
    ) -> dict[NodeId, Prediction]:
        """Predictions of a GNN that classifies nodes; by default for all nodes of the graph."""
        return await predict_nodes(self._transport, gnn, graph, nodes, metadata)
