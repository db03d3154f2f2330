"""Labelled samples that a GNN is registered with: graphs, or nodes of graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from d4explain.contracts.feature_schema import groups_of
from d4explain.contracts.gnn_spec import GnnSpecDocument
from d4explain.contracts.requests import CanonicalGraph, ProbeRequest
from service.graph_io.edge_reader import EdgeSize
from service.graph_io.graph_reader import FeatureSize, read_graphs
from service.graph_io.schemas import Label, graph_form
from service.http.faults import Faults, faults_of, reject
from service.schemas import SamplesIn
from store.settings import Settings

_LABEL: TypeAdapter[int | None] = TypeAdapter(Label | None)


def probe_request(
    asked: SamplesIn, spec: GnnSpecDocument, settings: Settings, at: str
) -> ProbeRequest:
    """Raises InvalidRequestError for whatever has no label, or one that the GNN cannot give."""
    most = settings.max_graphs_per_request
    if len(asked.graphs) > most:
        sent = f"has {len(asked.graphs):,} graphs"
        reject(f"{at}/graphs", f"{sent}; this deployment accepts at most {most:,} samples")
    at = f"{at}/graphs"
    groups = groups_of(spec.feature_schema)
    edges = EdgeSize(spec.edge_features, "the GNN takes")
    features = FeatureSize(spec.features, "the GNN", groups, spec.featuriser, edges)
    graphs = read_graphs(asked.graphs, at, settings, features)
    chance = 1 / spec.classes
    min_accuracy = chance if asked.min_accuracy is None else asked.min_accuracy
    if spec.task == "graph":
        labels = _graph_labels(graphs, spec.classes, at)
        return ProbeRequest(graphs=graphs, labels=labels, min_accuracy=min_accuracy)
    found = _node_labels(asked.graphs, graphs, spec.classes, at)
    return ProbeRequest(
        graphs=graphs,
        nodes=[list(of_graph) for of_graph in found],
        labels=[label for of_graph in found for label in of_graph.values()],
        min_accuracy=min_accuracy,
    )


def _graph_labels(graphs: Sequence[CanonicalGraph], classes: int, at: str) -> list[int]:
    faults = Faults()
    labels = []
    for index, graph in enumerate(graphs):
        if graph.label is None:
            faults.add(f"{at}/{index}", "has no label")
        elif graph.label >= classes:
            faults.add(f"{at}/{index}/label", _unknown_class(graph.label, classes))
        else:
            labels.append(graph.label)
    faults.raise_if_any()
    return labels


def _node_labels(
    posted: Sequence[Any], graphs: Sequence[CanonicalGraph], classes: int, at: str
) -> list[dict[int, int]]:
    """Per graph the labels by the positions of their nodes."""
    faults = Faults()
    labels: list[dict[int, int]] = []
    for index, (graph, read) in enumerate(zip(posted, graphs, strict=True)):
        found: dict[int, int] = {}
        before = len(faults)
        for node, (where, value) in enumerate(
            _written(graph, len(read.node_ids), f"{at}/{index}", faults)
        ):
            try:
                label = _LABEL.validate_python(value, strict=True)
            except ValidationError as error:
                faults.extend(faults_of(error, value, where))
                continue
            if label is not None and label >= classes:
                faults.add(where, _unknown_class(label, classes))
            elif label is not None:
                found[node] = label
        if not found and len(faults) == before:
            faults.add(f"{at}/{index}", "has no node with a label")
        labels.append(found)
    faults.raise_if_any()
    return labels


def _written(
    graph: Mapping[str, Any], nodes: int, at: str, faults: Faults
) -> list[tuple[str, Any]]:
    """What stands at every node for its label, and where that is."""
    form = graph_form(graph)
    if form == "node-link":
        listed = enumerate(graph["nodes"])
        return [(f"{at}/nodes/{i}/label", node.get("label")) for i, node in listed]
    if form == "molecule":
        faults.add(at, "is a molecule, whose atoms have no labels; send nodes with labels")
        return []
    labels = graph.get("y")
    if labels is None:
        return []
    if not isinstance(labels, list) or len(labels) != nodes:
        said = f"is one label for {nodes:,} nodes; a GNN that classifies nodes needs one for each"
        faults.add(f"{at}/y", f"{said}, or null where it is not known")
        return []
    return [(f"{at}/y/{i}", label) for i, label in enumerate(labels)]


def _unknown_class(label: int, classes: int) -> str:
    return f"is {label}; the classes are 0 to {classes - 1}"
