"""Asks a GNN for predictions of graphs or nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from d4explain.client.http_transport import HttpTransport
from d4explain.client.job_waiting import wait_for_job
from d4explain.client.resource_paths import gnn_path
from d4explain.client.resources import GraphJson, Predictions
from d4explain.contracts.results import NodeId, NodePredictions, Prediction, PredictionResult


def predict_graphs(
    transport: HttpTransport, gnn_id: str, graphs: Sequence[GraphJson]
) -> list[Prediction]:
    """See `Client.predictions`."""
    predictions = _predict(transport, gnn_id, {"graphs": [dict(graph) for graph in graphs]})
    if any(isinstance(item, NodePredictions) for item in predictions):
        raise TypeError(f"{gnn_id} classifies nodes; use node_predictions")
    return [item for item in predictions if isinstance(item, Prediction)]


def predict_nodes(
    transport: HttpTransport, gnn_id: str, graph: GraphJson, nodes: Sequence[NodeId] | None
) -> dict[NodeId, Prediction]:
    """See `Client.node_predictions`."""
    body: dict[str, Any] = {"graph": dict(graph)}
    if nodes is not None:
        body["nodes"] = list(nodes)
    (predictions,) = _predict(transport, gnn_id, body)
    if not isinstance(predictions, NodePredictions):
        raise TypeError(f"{gnn_id} classifies graphs; use predictions")
    return {prediction.node: prediction for prediction in predictions.nodes}


def _predict(
    transport: HttpTransport, gnn_id: str, body: Mapping[str, Any]
) -> list[Prediction] | list[NodePredictions]:
    answer = transport.send("POST", f"{gnn_path(gnn_id)}/predictions", json=body).json()
    response = Predictions.model_validate(answer)
    if response.predictions is not None:
        return response.predictions
    job = wait_for_job(transport, response.job.id)
    return PredictionResult.model_validate(job.result).predictions
