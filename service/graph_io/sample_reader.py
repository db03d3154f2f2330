"""Reads the labelled samples of a GNN registration: graphs, or nodes of graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from d4explain.contracts.features.feature_schema import column_rules, edge_column_rules
from d4explain.contracts.gnn_spec import GnnSpecDocument
from d4explain.contracts.requests import CanonicalGraph, ProbeRequest
from service.graph_io.features.expected_features import (
    ExpectedEdgeAttributes,
    ExpectedFeatures,
    class_number,
)
from service.graph_io.graph_reader import read_graphs
from service.graph_io.schemas import Label, graph_form
from service.graph_io.unread_attributes import InputWarnings
from service.http.faults import Faults, faults_of, reject
from service.schemas import SamplesIn
from store.settings import Settings

_LABEL: TypeAdapter[int | None] = TypeAdapter(Label | None)


def probe_request(
    posted: SamplesIn, spec: GnnSpecDocument, settings: Settings, at: str
) -> ProbeRequest:
    """Raises InvalidRequestError for missing labels and for labels that are not classes."""
    at = f"{at}/graphs"
    max_graphs = settings.max_graphs_per_request
    if len(posted.graphs) > max_graphs:
        reject(
            at,
            f"has {len(posted.graphs):,} graphs; this deployment accepts at most {max_graphs:,} "
            "samples",
        )
    document = spec.model_dump(mode="json")
    expected = ExpectedFeatures(
        spec.features,
        "the GNN",
        column_rules(document),
        spec.featuriser,
        ExpectedEdgeAttributes(spec.edge_features, "the GNN takes", edge_column_rules(document)),
        tuple(spec.class_names or ()),
    )
    warnings = InputWarnings()
    graphs = read_graphs(posted.graphs, at, settings, expected, warnings)
    chance = 1 / spec.classes
    min_accuracy = chance if posted.min_accuracy is None else posted.min_accuracy
    if spec.task == "graph":
        labels = _graph_labels(graphs, spec.classes, at)
        return ProbeRequest(
            graphs=graphs, labels=labels, min_accuracy=min_accuracy, warnings=warnings.texts
        )
    labels_by_graph = _node_labels(posted.graphs, graphs, spec, at)
    return ProbeRequest(
        graphs=graphs,
        nodes=[list(labels_by_node) for labels_by_node in labels_by_graph],
        labels=[label for by_node in labels_by_graph for label in by_node.values()],
        min_accuracy=min_accuracy,
        warnings=warnings.texts,
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
    posted: Sequence[Any], graphs: Sequence[CanonicalGraph], spec: GnnSpecDocument, at: str
) -> list[dict[int, int]]:
    """For each graph, the labels by node position."""
    faults = Faults()
    labels_by_graph: list[dict[int, int]] = []
    for index, (raw, graph) in enumerate(zip(posted, graphs, strict=True)):
        labels: dict[int, int] = {}
        before = len(faults)
        for node, (pointer, value) in enumerate(
            _posted_labels(raw, len(graph.node_ids), f"{at}/{index}", faults)
        ):
            try:
                label = _LABEL.validate_python(
                    class_number(value, spec.class_names or ()), strict=True
                )
            except ValidationError as error:
                faults.extend(faults_of(error, value, pointer))
                continue
            if label is not None and label >= spec.classes:
                faults.add(pointer, _unknown_class(label, spec.classes))
            elif label is not None:
                labels[node] = label
        if not labels and len(faults) == before:
            faults.add(f"{at}/{index}", "has no node with a label")
        labels_by_graph.append(labels)
    faults.raise_if_any()
    return labels_by_graph


def _posted_labels(
    graph: Mapping[str, Any], node_count: int, at: str, faults: Faults
) -> list[tuple[str, Any]]:
    """The label of each node, unchecked, with its JSON pointer."""
    form = graph_form(graph)
    if form == "node-link":
        nodes = enumerate(graph["nodes"])
        return [(f"{at}/nodes/{i}/label", node.get("label")) for i, node in nodes]
    if form == "molecule":
        faults.add(at, "is a molecule, whose atoms have no labels; send nodes with labels")
        return []
    labels = graph.get("y")
    if labels is None:
        return []
    if not isinstance(labels, list) or len(labels) != node_count:
        faults.add(
            f"{at}/y",
            f"is one label for {node_count:,} nodes; a GNN that classifies nodes needs one per "
            "node, or null where it is unknown",
        )
        return []
    return [(f"{at}/y/{i}", label) for i, label in enumerate(labels)]


def _unknown_class(label: int, classes: int) -> str:
    return f"is {label}; the classes are 0 to {classes - 1}"
