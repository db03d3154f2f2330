"""The real graph of a class that is nearest to an explained graph."""

from __future__ import annotations

import torch

from d4explain.contracts.features.gnn_names import gnn_names
from d4explain.contracts.results import ResultEdge, ResultGraph, ResultNode
from d4explain.contracts.worker_calls import Nearest, NearestCall, NearestGraph
from d4explain.gnn.graphs import Graph
from models.metrics.neighbourhood_distance import HOPS, count_neighbourhoods, distances
from worker.calls.explained_graphs import Answers, CallError, ExplainedGraph
from worker.calls.inputs import Inputs
from worker.loading.library import Library
from worker.reporting.documents import prediction, rounded


def nearest(call: NearestCall, inputs: Inputs, library: Library, answers: Answers) -> Nearest:
    """Compares all reference graphs, or neighbourhoods of nodes, that the GNN gives the class.

    Of equally near ones, the first is taken.
    """
    gnn, dataset = inputs
    usual = library.usual_attributes(gnn, dataset)
    explained = answers.explained(call.tenant, call.answer_sha256, call.graph, "graph", usual)
    target = _target_class(call, explained)
    reference = library.reference(gnn, dataset)
    probabilities = library.reference_predictions(gnn, dataset)
    of_class = (probabilities.argmax(dim=1) == target).nonzero()[:, 0].tolist()
    counted = library.neighbourhood_counts(gnn, dataset)
    nothing = Nearest(
        target_class=target,
        nearest=None,
        distance=None,
        hops=HOPS,
        compares_features=counted.compares_features,
        compared_count=len(of_class),
    )
    if not of_class:
        return nothing
    own = count_neighbourhoods([explained.graph], counted.compares_features)
    away = distances(own, counted)
    best = min(of_class, key=lambda position: (away[position], position))
    graph = reference.graphs[best]
    found = NearestGraph(
        position=best if graph.target is None else None,
        graph=_document(graph),
        node=graph.target,
        prediction=prediction(probabilities[best], gnn_names(gnn.spec)),
        label=reference.labels[best],
    )
    return nothing.model_copy(update={"nearest": found, "distance": rounded(float(away[best]))})


def _target_class(call: NearestCall, explained: ExplainedGraph) -> int:
    classes = len(explained.answer.prediction.probabilities)
    if call.target_class is not None:
        if call.target_class >= classes:
            detail = f"is {call.target_class}; the GNN has the classes 0 to {classes - 1}"
            raise CallError("target_class", detail)
        return call.target_class
    found = [*explained.answer.counterfactuals, *explained.answer.minimal]
    if not found:
        raise CallError(
            "target_class", "is missing, and the graph has no counterfactual whose class to take"
        )
    return found[0].prediction.predicted_class


def _document(graph: Graph) -> ResultGraph:
    attributes = graph.edge_attributes
    rows = [None] * graph.edge_count if attributes is None else _numbers(attributes)
    return ResultGraph(
        nodes=[ResultNode(id=i, x=x) for i, x in enumerate(_numbers(graph.features))],
        edges=[
            ResultEdge(source=source, target=target, edge_attr=row)
            for (source, target), row in zip(graph.edges.T.tolist(), rows, strict=True)
        ],
    )


def _numbers(values: torch.Tensor) -> list[list[float]]:
    return [[rounded(value) for value in row] for row in values.tolist()]
