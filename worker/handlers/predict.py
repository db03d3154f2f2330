"""Predicts: the GNN's own class probabilities of posted graphs."""

from __future__ import annotations

from models.gnn.network import predict
from store.requests import PredictionRequest
from store.results import PredictionResult
from worker.loading import graph_of
from worker.reports import prediction
from worker.subjects import gnn_of, request_bytes
from worker.work import Outcome, Work


def predict_graphs(work: Work) -> Outcome:
    request = PredictionRequest.model_validate_json(request_bytes(work))
    gnn = work.library.gnn(gnn_of(work))
    graphs = [graph_of(document) for document in request.graphs]
    probabilities = predict(gnn, graphs, work.library.device)  # [graph, class]
    result = PredictionResult(predictions=[prediction(row) for row in probabilities])
    return Outcome(result=result.model_dump(mode="json"))
