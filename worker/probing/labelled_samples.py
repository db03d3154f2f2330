"""Checks a GNN on the labelled samples that were registered with it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.contracts.probe_reports import ProbeCheck, ProbeExample, SampledClass, SampleFigures
from d4explain.contracts.results import NodeId
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict, predict_nodes

_MAX_SHOWN_VALUES = 8


@dataclass(frozen=True)
class SampledNode:
    graph: int  # position of its graph among the samples
    node: int
    id: NodeId  # the caller's


@dataclass(frozen=True)
class Samples:
    graphs: list[Graph]
    labels: list[int]  # one per graph, or per node
    min_accuracy: float  # required share of correct predictions
    nodes: list[SampledNode] | None = None  # the labelled nodes, for a node classifier

    def probabilities(self, gnn: Gnn, device: torch.device) -> Tensor:
        """The GNN's probabilities: [sample, class]."""
        if self.nodes is None:
            return predict(gnn, self.graphs, device)
        by_graph = [predict_nodes(gnn, graph, device) for graph in self.graphs]  # [node, class]
        return torch.stack([by_graph[sample.graph][sample.node] for sample in self.nodes])

    def name(self, graph: int) -> ProbeExample:
        """Names one of the graphs, without expected and actual output."""
        sample = self.graphs[graph]
        size = f"{sample.node_count} nodes and {sample.edges.shape[1]} edges"
        name = f"graph {graph} of the samples, {size}"
        return ProbeExample(sample=graph, graph=name, expected="", came_out="")

    def example(self, sample: int, expected: str, came_out: str) -> ProbeExample:
        graph, node = sample, ""
        if self.nodes is not None:
            graph, node = self.nodes[sample].graph, f", node {self.nodes[sample].id!r}"
        name = self.name(graph)
        update = {"graph": name.graph + node, "expected": expected, "came_out": came_out}
        return name.model_copy(update=update)


def sample_figures(samples: Samples, probabilities: Tensor) -> SampleFigures:
    classes = probabilities.shape[1]
    labels = torch.tensor(samples.labels)
    predicted = probabilities.argmax(dim=1)
    labelled = torch.bincount(labels, minlength=classes).tolist()
    predicted_counts = torch.bincount(predicted, minlength=classes).tolist()
    correct = torch.bincount(labels[labels == predicted], minlength=classes).tolist()
    return SampleFigures(
        graph_count=len(samples.graphs),
        node_count=None if samples.nodes is None else len(samples.nodes),
        accuracy=sum(correct) / len(labels),
        min_accuracy=samples.min_accuracy,
        classes=[
            SampledClass(labelled=labelled[i], predicted=predicted_counts[i], correct=correct[i])
            for i in range(classes)
        ],
    )


def sample_checks(
    samples: Samples, probabilities: Tensor, figures: SampleFigures
) -> list[ProbeCheck]:
    """Checks for finite values, more than one predicted class, and accuracy."""
    return [
        _finite(samples, probabilities),
        _classes(samples, probabilities, figures),
        _accuracy(samples, probabilities, figures),
    ]


def format_values(values: Tensor) -> str:
    """Shortens the logits or probabilities of one graph or node."""
    more = ", …" if len(values) > _MAX_SHOWN_VALUES else ""
    return f"[{', '.join(f'{float(value):.4g}' for value in values[:_MAX_SHOWN_VALUES])}{more}]"


def _finite(samples: Samples, probabilities: Tensor) -> ProbeCheck:
    broken = (~torch.isfinite(probabilities).all(dim=1)).nonzero().flatten().tolist()
    example = None
    if broken:
        came_out = format_values(probabilities[broken[0]])
        example = samples.example(broken[0], "finite probabilities", came_out)
    detail = f"{len(broken)} of {len(probabilities)} samples give non-finite values"
    return ProbeCheck(name="samples_finite", passed=not broken, detail=detail, example=example)


def _classes(samples: Samples, probabilities: Tensor, figures: SampleFigures) -> ProbeCheck:
    labelled = sum(counts.labelled > 0 for counts in figures.classes)
    predicted = sum(counts.predicted > 0 for counts in figures.classes)
    detail = (
        f"the labels have {labelled} of {len(figures.classes)} classes, "
        f"the predictions have {predicted}"
    )
    if labelled < 2 or predicted > 1:
        return ProbeCheck(name="samples_classes", passed=True, detail=detail)
    detail += "; the GNN gives every sample the same class"
    wrong = _first_wrong(samples, probabilities)
    return ProbeCheck(name="samples_classes", passed=False, detail=detail, example=wrong)


def _accuracy(samples: Samples, probabilities: Tensor, figures: SampleFigures) -> ProbeCheck:
    correct = sum(counts.correct for counts in figures.classes)
    detail = (
        f"{correct} of {len(samples.labels)} samples are predicted as labelled: "
        f"accuracy {figures.accuracy:.3g}, required {figures.min_accuracy:.3g}"
    )
    passed = figures.accuracy >= figures.min_accuracy - 1e-9
    example = None if passed else _first_wrong(samples, probabilities)
    return ProbeCheck(name="samples_accuracy", passed=passed, detail=detail, example=example)


def _first_wrong(samples: Samples, probabilities: Tensor) -> ProbeExample:
    predicted = probabilities.argmax(dim=1).tolist()
    wrong = next(i for i, label in enumerate(samples.labels) if label != predicted[i])
    came_out = f"class {predicted[wrong]}, probabilities {format_values(probabilities[wrong])}"
    return samples.example(wrong, f"class {samples.labels[wrong]}", came_out)
