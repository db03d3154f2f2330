"""The probe accepts sound GNNs of every layer, and finds what is not sound."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from models.gnn.layers import Linear, build
from models.gnn.network import Gnn
from models.gnn.norms import GraphNorm
from models.gnn.spec import (
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
from models.graphs import SparseGraphs
from worker.conformance import probe

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
    """Four blocks as PyG initialises them."""
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
    """Tells nodes apart by their place."""

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        return super().sparse(values, graphs) + torch.arange(len(values))[:, None].to(values)


def test_a_node_classifier_that_looks_at_the_order_of_nodes_is_found() -> None:
    torch.manual_seed(0)
    gnn = Gnn(GnnSpec(4, 2, (GcnLayer(8), LinearLayer(2))))
    gnn.layers[1] = ByPosition(8, LinearLayer(2))
    failed = {check.name for check in probe(gnn, CPU).checks if not check.passed}
    assert failed == {"batch_invariant", "node_order_invariant", "dense_equals_sparse"}


class OverTheBatch(GraphNorm):
    """Norms the nodes of all graphs together."""

    def sparse(self, values: Tensor, graphs: SparseGraphs) -> Tensor:
        result: Tensor = self.norm(values)
        return result


def test_a_norm_over_the_batch_is_found() -> None:
    gnn = residual_gnn(GcnLayer(16), GraphNormLayer())
    assert isinstance(build(GraphNormLayer(), 16), GraphNorm)
    gnn.layers[3] = OverTheBatch(16, GraphNormLayer())
    failed = {check.name for check in probe(gnn, CPU).checks if not check.passed}
    assert failed == {"batch_invariant", "dense_equals_sparse"}
