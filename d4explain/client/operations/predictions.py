"""Asks a GNN for predictions of graphs or nodes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from d4explain.client.graph_formats.posted_graphs import Graph, Graphs, graph_json, graph_list
from d4explain.client.job_waiting import wait_for_job
from d4explain.client.operations.resource_paths import GnnReference, gnn_path, reference_of
from d4explain.client.options import Metadata
from d4explain.client.resources import Predictions
from d4explain.client.transport.http_transport import HttpTransport
from d4explain.contracts.results import NodeId, NodePredictions, Prediction, PredictionResult

_log = logging.getLogger("d4explain")


async def predict_graphs(
    transport: HttpTransport,
    gnn: GnnReference,
    graphs: Graphs,
    metadata: Metadata | None = None,
) -> list[Prediction]:
    """See `Client.predictions`."""
    predictions = await _predict(transport, gnn, {"graphs": graph_list(graphs)}, metadata)
    if any(isinstance(item, NodePredictions) for item in predictions):
        raise TypeError(f"{reference_of(gnn)} classifies nodes; use node_predictions")
    return [item for item in predictions if isinstance(item, Prediction)]


async def predict_nodes(
    transport: HttpTransport,
    gnn: GnnReference,
    graph: Graph,
    nodes: Sequence[NodeId] | None,
    metadata: Metadata | None = None,
) -> dict[NodeId, Prediction]:
    """See `Client.node_predictions`."""
    body: dict[str, Any] = {"graph": graph_json(graph)}
    if nodes is not None:
        body["nodes"] = list(nodes)
    (predictions,) = await _predict(transport, gnn, body, metadata)
    if not isinstance(predictions, NodePredictions):
        raise TypeError(f"{reference_of(gnn)} classifies graphs; use predictions")
    return {prediction.node: prediction for prediction in predictions.nodes}


async def _predict(
    transport: HttpTransport,
    gnn: GnnReference,
    body: Mapping[str, Any],
    metadata: Metadata | None,
) -> list[Prediction] | list[NodePredictions]:
    path = f"{gnn_path(gnn)}/predictions"
    if metadata:
        body = {**body, "metadata": dict(metadata)}
    answer = await transport.send("POST", path, json=body)
    response = Predictions.model_validate(answer.json())
    if response.predictions is not None:
        _warn(response.warnings)
        return response.predictions
    job = await wait_for_job(transport, response.job.id)
    result = PredictionResult.model_validate(job.result)
    _warn(result.warnings)
    return result.predictions


def _warn(texts: Sequence[str]) -> None:
    """Predictions are plain values, so what the API left out of the graphs is logged."""
    for text in texts:
        _log.warning(text)
