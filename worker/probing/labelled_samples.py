"""What a GNN makes of the labelled samples that it was registered with."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.contracts.results import (
    NodeId,
    ProbeCheck,
    ProbeExample,
    SampledClass,
    SampleFigures,
)
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict, predict_nodes

_SHOWN = 8  # values of one answer that are listed


@dataclass(frozen=True)
class SampledNode:
    graph: int  # position of its graph among the samples
    node: int
    id: NodeId  # the caller's


@dataclass(frozen=True)
class Samples:
    graphs: list[Graph]
    labels: list[int]  # one per graph, or per node
    min_accuracy: float  # share that has to come out as labelled
    nodes: list[SampledNode] | None = None  # of a node classifier, those that have labels

    def probabilities(self, gnn: Gnn, device: torch.device) -> Tensor:
        """What the GNN says about every sample: [sample, class]."""
        if self.nodes is None:
            return predict(gnn, self.graphs, device)
        of_graphs = [predict_nodes(gnn, graph, device) for graph in self.graphs]  # [node, class]
        return torch.stack([of_graphs[sample.graph][sample.node] for sample in self.nodes])

    def named(self, graph: int) -> ProbeExample:
        """One of the graphs, still without what came out."""
        sample = self.graphs[graph]
        size = f"{sample.node_count} nodes and {sample.edges.shape[1]} edges"
        said = f"graph {graph} of the samples, {size}"
        return ProbeExample(sample=graph, graph=said, expected="", came_out="")

    def example(self, sample: int, expected: str, came_out: str) -> ProbeExample:
        graph, node = sample, ""
        if self.nodes is not None:
            graph, node = self.nodes[sample].graph, f", node {self.nodes[sample].id!r}"
        name = self.named(graph)
        update = {"graph": name.graph + node, "expected": expected, "came_out": came_out}
        return name.model_copy(update=update)


def sample_figures(samples: Samples, probabilities: Tensor) -> SampleFigures:
    classes = probabilities.shape[1]
    labels = torch.tensor(samples.labels)
    predicted = probabilities.argmax(dim=1)
    labelled = torch.bincount(labels, minlength=classes).tolist()
    given = torch.bincount(predicted, minlength=classes).tolist()
    right = torch.bincount(labels[labels == predicted], minlength=classes).tolist()
    return SampleFigures(
        graph_count=len(samples.graphs),
        node_count=None if samples.nodes is None else len(samples.nodes),
        accuracy=sum(right) / len(labels),
        min_accuracy=samples.min_accuracy,
        classes=[
            SampledClass(labelled=labelled[i], predicted=given[i], correct=right[i])
            for i in range(classes)
        ],
    )


def sample_checks(
    samples: Samples, probabilities: Tensor, figures: SampleFigures
) -> list[ProbeCheck]:
    """Finite, more than one class if the labels have more than one, and accurate."""
    return [
        _finite(samples, probabilities),
        _classes(samples, probabilities, figures),
        _accuracy(samples, probabilities, figures),
    ]


def shown(values: Tensor) -> str:
    """One graph's or node's logits or probabilities, in few characters."""
    more = ", …" if len(values) > _SHOWN else ""
    return f"[{', '.join(f'{float(value):.4g}' for value in values[:_SHOWN])}{more}]"


def _finite(samples: Samples, probabilities: Tensor) -> ProbeCheck:
    broken = (~torch.isfinite(probabilities).all(dim=1)).nonzero().flatten().tolist()
    example = None
    if broken:
        came_out = shown(probabilities[broken[0]])
        example = samples.example(broken[0], "finite probabilities", came_out)
    detail = f"{len(broken)} of {len(probabilities)} samples give values that are not finite"
    return ProbeCheck(name="samples_finite", passed=not broken, detail=detail, example=example)


def _classes(samples: Samples, probabilities: Tensor, figures: SampleFigures) -> ProbeCheck:
    labelled = sum(found.labelled > 0 for found in figures.classes)
    predicted = sum(found.predicted > 0 for found in figures.classes)
    detail = (
        f"of {len(figures.classes)} classes the labels have {labelled} and the answers {predicted}"
    )
    if labelled < 2 or predicted > 1:
        return ProbeCheck(name="samples_classes", passed=True, detail=detail)
    detail += "; the GNN gives every sample the same class"
    wrong = _first_wrong(samples, probabilities)
    return ProbeCheck(name="samples_classes", passed=False, detail=detail, example=wrong)


def _accuracy(samples: Samples, probabilities: Tensor, figures: SampleFigures) -> ProbeCheck:
    right = sum(found.correct for found in figures.classes)
    detail = (
        f"{right} of {len(samples.labels)} samples come out as labelled, "
        f"an accuracy of {figures.accuracy:.3g}; {figures.min_accuracy:.3g} is needed"
    )
    passed = figures.accuracy >= figures.min_accuracy - 1e-9
    example = None if passed else _first_wrong(samples, probabilities)
    return ProbeCheck(name="samples_accuracy", passed=passed, detail=detail, example=example)


def _first_wrong(samples: Samples, probabilities: Tensor) -> ProbeExample:
    predicted = probabilities.argmax(dim=1).tolist()
    wrong = next(i for i, label in enumerate(samples.labels) if label != predicted[i])
    came_out = f"class {predicted[wrong]}, probabilities {shown(probabilities[wrong])}"
    return samples.example(wrong, f"class {samples.labels[wrong]}", came_out)
