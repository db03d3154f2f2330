"""Predicts: the GNN's own class probabilities of posted graphs, or of their nodes."""

from __future__ import annotations

from d4explain.contracts.requests import CanonicalGraph, PredictionRequest
from d4explain.contracts.results import NodePrediction, NodePredictions, PredictionResult
from d4explain.gnn.network import Gnn, predict, predict_nodes
from worker.execution.handler_api import Outcome, Work
from worker.loading.job_inputs import gnn_of, request_bytes
from worker.loading.library import graph_of
from worker.loading.open_gnn import open_gnn
from worker.reporting.documents import prediction


def predict_graphs(work: Work) -> Outcome:
    request = PredictionRequest.model_validate_json(request_bytes(work))
    gnn = open_gnn(work, gnn_of(work))
    if gnn.spec.classifies_nodes:
        result = PredictionResult(
            predictions=[
                _node_predictions(work, gnn, document, request.nodes) for document in request.graphs
            ]
        )
    else:
        on_edges = gnn.spec.edge_features
        graphs = [graph_of(document, on_edges) for document in request.graphs]
        probabilities = predict(gnn, graphs, work.library.device)  # [graph, class]
        result = PredictionResult(predictions=[prediction(row) for row in probabilities])
    return Outcome(result=result.model_dump(mode="json"))


def _node_predictions(
    work: Work, gnn: Gnn, document: CanonicalGraph, nodes: list[int] | None
) -> NodePredictions:
    graph = graph_of(document, gnn.spec.edge_features)
    probabilities = predict_nodes(gnn, graph, work.library.device)  # [node, class]
    asked = range(len(document.node_ids)) if nodes is None else nodes
    return NodePredictions(
        nodes=[
            NodePrediction(
                node=document.node_ids[node], **prediction(probabilities[node]).model_dump()
            )
            for node in asked
        ]
    )
