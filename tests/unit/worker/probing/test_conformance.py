"""The probe accepts sound GNNs with every layer type and rejects faulty ones."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph, SparseGraphs
from d4explain.gnn.layers.build import build
from d4explain.gnn.layers.norms import GraphNorm
from d4explain.gnn.layers.row_wise import Linear
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import (
    ActivationLayer,
    AddLayer,
    BatchNormLayer,
    ChebLayer,
    EgnnLayer,
    GatLayer,
    GatV2Layer,
    GcnLayer,
    GinLayer,
    GinSumLayer,
    GnnSpec,
    GraphConvLayer,
    GraphNormLayer,
    KeepLayer,
    Layer,
    LayerNormLayer,
    LinearLayer,
    PnaLayer,
    PoolLayer,
    SageLayer,
    TagLayer,
)
from worker.probing.conformance import probe
from worker.probing.drawn_graphs import draw_graphs
from worker.probing.labelled_samples import Samples

torch.set_num_threads(1)

CPU = torch.device("cpu")
CONVOLUTIONS: list[Layer] = [
    GcnLayer(16),
    GinLayer(16, 16),
    SageLayer(16, aggr="max"),
    GraphConvLayer(16),
    GraphConvLayer(16, aggr="max"),
    GatLayer(8, heads=2),
    GatV2Layer(16, heads=2, concat=False),
    PnaLayer(16, ("mean", "min", "max", "std"), ("identity", "amplification", "attenuation")),
    TagLayer(16, 2),
    ChebLayer(16, 3),
    EgnnLayer(16, 0.1, 0.2),
    GinSumLayer(),
]
NORMS: list[Layer] = [
    BatchNormLayer(),
    LayerNormLayer("node"),
    LayerNormLayer("graph"),
    GraphNormLayer(),
]


def residual_gnn(conv: Layer, norm: Layer, features: int = 7) -> Gnn:
    """Four blocks with PyG's initial weights."""
    torch.manual_seed(0)
    block = (KeepLayer(), conv, norm, ActivationLayer("relu"), AddLayer())
    layers = (LinearLayer(16), *block * 4, PoolLayer("attention"), LinearLayer(2))
    return Gnn(GnnSpec(features, 2, layers))


@pytest.mark.parametrize("features", [1, 7])
@pytest.mark.parametrize("norm", NORMS, ids=str)
@pytest.mark.parametrize("conv", CONVOLUTIONS, ids=str)
def test_a_sound_gnn_passes(conv: Layer, norm: Layer, features: int) -> None:
    report = probe(residual_gnn(conv, norm, features), CPU)
    assert report.passed, [check for check in report.checks if not check.passed]


@pytest.mark.parametrize("conv", CONVOLUTIONS, ids=str)
def test_a_sound_node_classifier_passes(conv: Layer) -> None:
    torch.manual_seed(0)
    layers = (LinearLayer(16), KeepLayer(), conv, ActivationLayer("relu"), AddLayer(), GcnLayer(3))
    report = probe(Gnn(GnnSpec(4, 3, layers)), CPU)
    assert report.passed, [check for check in report.checks if not check.passed]
    shapes = next(check for check in report.checks if check.name == "shapes")
    assert shapes.detail == "351 nodes give logits (351, 3), expected (351, 3)"


class ByPosition(Linear):
    """Depends on the order of the nodes."""

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        return super().sparse(values, graphs) + torch.arange(len(values))[:, None].to(values)


def test_a_node_classifier_that_depends_on_node_order_is_rejected() -> None:
    torch.manual_seed(0)
    gnn = Gnn(GnnSpec(4, 2, (GcnLayer(8), LinearLayer(2))))
    gnn.layers[1] = ByPosition(8, LinearLayer(2))
    failed = {check.name for check in probe(gnn, CPU).checks if not check.passed}
    assert failed == {"batch_invariant", "node_order_invariant", "dense_equals_sparse"}


class OverTheBatch(GraphNorm):
    """Normalises over the nodes of all graphs in the batch."""

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        result: Tensor = self.norm(values)
        return result


def test_a_norm_over_the_batch_is_rejected() -> None:
    gnn = residual_gnn(GcnLayer(16), GraphNormLayer())
    assert isinstance(build(GraphNormLayer(), 16), GraphNorm)
    gnn.layers[3] = OverTheBatch(16, GraphNormLayer())
    failed = {check.name for check in probe(gnn, CPU).checks if not check.passed}
    assert failed == {"batch_invariant", "dense_equals_sparse"}


def test_a_failed_check_names_the_graph_and_its_output() -> None:
    gnn = residual_gnn(GcnLayer(16), GraphNormLayer())
    gnn.layers[3] = OverTheBatch(16, GraphNormLayer())
    graphs = draw_graphs(gnn.spec, torch.Generator().manual_seed(0))
    failed = next(check for check in probe(gnn, CPU).checks if check.name == "batch_invariant")
    assert failed.example is not None
    assert failed.example.sample is None
    assert failed.example.graph in [
        f"drawn graph {i}, {graph.node_count} nodes and {graph.edges.shape[1]} edges"
        for i, graph in enumerate(graphs)
    ]
    assert failed.example.expected != failed.example.came_out


def first_feature_gnn() -> Gnn:
    """Class 1 if the first features, averaged over neighbours, have a positive sum."""
    gnn = Gnn(GnnSpec(2, 2, (GraphConvLayer(1, aggr="mean"), PoolLayer("sum"), LinearLayer(2))))
    weights = {name: torch.zeros_like(value) for name, value in gnn.state_dict().items()}
    weights["layers.0.conv.lin_root.weight"] = torch.tensor([[1.0, 0.0]])
    weights["layers.0.conv.lin_rel.weight"] = torch.tensor([[0.01, 0.0]])
    weights["layers.2.linear.weight"] = torch.tensor([[0.0], [1.0]])
    gnn.load_state_dict(weights)
    return gnn


def pair(value: float) -> Graph:
    return Graph(torch.tensor([[value, 0.0], [value, 0.0]]), torch.tensor([[0], [1]]))


def samples(labelled: list[tuple[float, int]], min_accuracy: float = 0.5) -> Samples:
    graphs = [pair(value) for value, _ in labelled]
    return Samples(graphs, [label for _, label in labelled], min_accuracy)


def test_samples_report_accuracy_and_class_counts() -> None:
    report = probe(first_feature_gnn(), CPU, samples([(1, 1), (2, 1), (-1, 0), (3, 0)], 0.75))
    assert report.passed, report.checks
    assert report.samples is not None
    assert report.samples.accuracy == 0.75
    assert [found.model_dump() for found in report.samples.classes] == [
        {"labelled": 2, "predicted": 1, "correct": 1},
        {"labelled": 2, "predicted": 3, "correct": 2},
    ]
    assert report.checks[-2].detail == "the labels have 2 of 2 classes, the predictions have 2"


def test_samples_below_the_accuracy_fail_with_the_first_wrong_one() -> None:
    report = probe(first_feature_gnn(), CPU, samples([(1, 1), (2, 1), (-1, 1), (-3, 0)], 0.9))
    (failed,) = [check for check in report.checks if not check.passed]
    assert failed.name == "samples_accuracy"
    assert failed.detail == (
        "3 of 4 samples are predicted as labelled: accuracy 0.75, required 0.9"
    )
    assert failed.example is not None
    assert (failed.example.sample, failed.example.expected) == (2, "class 1")
    assert failed.example.came_out.startswith("class 0, probabilities [0.8")


def test_one_class_for_all_samples_fails_even_if_half_are_right() -> None:
    report = probe(first_feature_gnn(), CPU, samples([(1, 1), (2, 0)]))
    (failed,) = [check for check in report.checks if not check.passed]
    assert failed.name == "samples_classes"
    assert "the GNN gives every sample the same class" in failed.detail


def test_a_sample_that_overflows_is_named() -> None:
    report = probe(first_feature_gnn(), CPU, samples([(1, 1), (3e38, 1)]))
    failed = {check.name: check for check in report.checks if not check.passed}
    assert failed["finite"].example is not None
    assert failed["finite"].example.graph == "graph 1 of the samples, 2 nodes and 1 edges"
    assert "inf" in failed["finite"].example.came_out


def biased(bias: float, scale: float = 1.0) -> Gnn:
    """A GNN that counts nodes and edges; `bias` favours class 1, `scale` multiplies its logits."""
    gnn = Gnn(GnnSpec(1, 2, (GinSumLayer(), PoolLayer("sum"), LinearLayer(2))))
    with torch.no_grad():
        linear = gnn.layers[-1].linear
        linear.weight.copy_(scale * torch.tensor([[0.0], [1.0]]))
        linear.bias.copy_(scale * torch.tensor([0.0, bias]))
    return gnn


def test_a_gnn_that_gives_every_probe_graph_one_class_is_named() -> None:
    report = probe(biased(700.0, scale=0.01), CPU)
    assert report.passed
    (warning,) = [one for one in report.warnings if one.startswith("same class")]
    assert "class 1" in warning
    assert probe(biased(-20.5), CPU).warnings == []


def test_a_saturated_gnn_is_named() -> None:
    warnings = probe(biased(-20.5, scale=1e4), CPU).warnings
    assert [warning.split(":")[0] for warning in warnings] == ["saturated"]
