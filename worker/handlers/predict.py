"""Predicts the GNN's class probabilities of posted graphs, or of their nodes."""

from __future__ import annotations

import torch

from d4explain.contracts.features.gnn_names import GnnNames, gnn_names
from d4explain.contracts.requests import CanonicalGraph, PredictionRequest
from d4explain.contracts.results import NodePrediction, NodePredictions, PredictionResult
from d4explain.gnn.network import Gnn, predict, predict_nodes
from worker.execution.handler_api import HandlerContext, HandlerOutput
from worker.loading.graph_conversion import graph_of
from worker.loading.job_inputs import read_gnn, read_request
from worker.loading.open_gnn import open_gnn
from worker.reporting.documents import prediction


def handle_prediction(context: HandlerContext) -> HandlerOutput:
    store, claim, library = context.store, context.claim, context.library
    request = PredictionRequest.model_validate_json(read_request(store, claim))
    row = read_gnn(store, claim)
    gnn = open_gnn(library, store.settings, row)
    result = predict_request(gnn, request, library.device, gnn_names(row.spec))
    return HandlerOutput(result=result.model_dump(mode="json"))


def predict_request(
    gnn: Gnn, request: PredictionRequest, device: torch.device, names: GnnNames
) -> PredictionResult:
    if gnn.spec.classifies_nodes:
        return PredictionResult(
            predictions=[
                _node_predictions(gnn, document, request.nodes, device, names)
                for document in request.graphs
            ],
            warnings=request.warnings,
        )
    graphs = [graph_of(document, gnn.spec.edge_features) for document in request.graphs]
    probabilities = predict(gnn, graphs, device)  # [graph, class]
    return PredictionResult(
        predictions=[prediction(row, names) for row in probabilities], warnings=request.warnings
    )


def _node_predictions(
    gnn: Gnn,
    document: CanonicalGraph,
    nodes: list[int] | None,
    device: torch.device,
    names: GnnNames,
) -> NodePredictions:
    graph = graph_of(document, gnn.spec.edge_features)
    probabilities = predict_nodes(gnn, graph, device)  # [node, class]
    requested = range(len(document.node_ids)) if nodes is None else nodes
    return NodePredictions(
        nodes=[
            NodePrediction(
                node=document.node_ids[node],
                **prediction(probabilities[node], names).model_dump(),
            )
            for node in requested
        ]
    )
