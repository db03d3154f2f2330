"""Every layer of a spec document is converted to the layer that builds it."""

from __future__ import annotations

import pytest

from d4explain.contracts.gnn_files.gnn_tensors import expected_tensors
from d4explain.contracts.gnn_spec import GnnSpecDocument
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import (
    ActivationLayer,
    AddLayer,
    BatchNormLayer,
    DropoutLayer,
    GatLayer,
    GatV2Layer,
    GcnLayer,
    GineLayer,
    GineSumLayer,
    GinLayer,
    GraphConvLayer,
    GraphNormLayer,
    JumpLayer,
    KeepLayer,
    Layer,
    LayerNormLayer,
    LinearLayer,
    PoolLayer,
    SageLayer,
)
from worker.loading.spec_conversion import spec_from_document

LAYERS: list[tuple[dict[str, object], Layer]] = [
    ({"type": "gcn", "out": 5}, GcnLayer(out=5)),
    ({"type": "gin", "out": 5, "hidden": 7}, GinLayer(out=5, hidden=7)),
    (
        {"type": "gin", "out": 5, "hidden": 7, "train_eps": True},
        GinLayer(out=5, hidden=7, train_eps=True),
    ),
    ({"type": "gine", "out": 5, "hidden": 7}, GineLayer(out=5, hidden=7)),
    ({"type": "gine_sum", "train_eps": True}, GineSumLayer(train_eps=True)),
    ({"type": "gat", "out": 6, "edges": True}, GatLayer(out=6, edges=True)),
    ({"type": "sage", "out": 6}, SageLayer(out=6)),
    ({"type": "sage", "out": 6, "bias": False}, SageLayer(out=6, bias=False)),
    ({"type": "sage", "out": 6, "aggr": "max"}, SageLayer(out=6, aggr="max")),
    ({"type": "graph_conv", "out": 6}, GraphConvLayer(out=6)),
    (
        {"type": "graph_conv", "out": 6, "bias": False, "aggr": "mean"},
        GraphConvLayer(out=6, bias=False, aggr="mean"),
    ),
    ({"type": "gat", "out": 6}, GatLayer(out=6)),
    (
        {"type": "gatv2", "out": 6, "heads": 2, "concat": False, "negative_slope": 0.1},
        GatV2Layer(out=6, heads=2, concat=False, negative_slope=0.1),
    ),
    ({"type": "linear", "out": 6}, LinearLayer(out=6)),
    ({"type": "linear", "out": 6, "bias": False}, LinearLayer(out=6, bias=False)),
    ({"type": "dropout", "p": 0.5}, DropoutLayer(p=0.5)),
    ({"type": "batch_norm"}, BatchNormLayer()),
    ({"type": "layer_norm", "mode": "node"}, LayerNormLayer(mode="node")),
    ({"type": "layer_norm", "mode": "graph"}, LayerNormLayer(mode="graph")),
    ({"type": "graph_norm"}, GraphNormLayer()),
    ({"type": "activation", "kind": "relu"}, ActivationLayer(kind="relu")),
    ({"type": "activation", "kind": "leaky_relu"}, ActivationLayer(kind="leaky_relu")),
    (
        {"type": "activation", "kind": "leaky_relu", "slope": 0.2},
        ActivationLayer(kind="leaky_relu", slope=0.2),
    ),
    ({"type": "activation", "kind": "selu"}, ActivationLayer(kind="selu")),
    ({"type": "activation", "kind": "silu"}, ActivationLayer(kind="silu")),
    ({"type": "activation", "kind": "softplus"}, ActivationLayer(kind="softplus")),
    ({"type": "activation", "kind": "elu"}, ActivationLayer(kind="elu")),
    ({"type": "activation", "kind": "gelu"}, ActivationLayer(kind="gelu")),
    ({"type": "activation", "kind": "tanh"}, ActivationLayer(kind="tanh")),
    ({"type": "activation", "kind": "sigmoid"}, ActivationLayer(kind="sigmoid")),
]


def document(*layers: dict[str, object], pool: str = "mean", **rest: object) -> GnnSpecDocument:
    return GnnSpecDocument.model_validate(
        {
            "features": 3,
            "classes": 2,
            "layers": [*layers, {"type": "pool", "op": pool}, {"type": "linear", "out": 2}],
            **rest,
        }
    )


@pytest.mark.parametrize(("layer", "expected"), LAYERS, ids=[str(layer) for layer, _ in LAYERS])
def test_every_layer_is_converted_and_has_the_expected_tensors(
    layer: dict[str, object], expected: Layer
) -> None:
    edges = {"edge_features": 2} if "gine" in str(layer["type"]) or layer.get("edges") else {}
    spec = spec_from_document(document(layer, **edges))
    assert spec.layers[0] == expected
    tensors = {
        name: (tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
        for name, tensor in Gnn(spec).state_dict().items()
    }
    assert tensors == {
        name: (tensor.shape, tensor.dtype)
        for name, tensor in expected_tensors(document(layer, **edges)).items()
    }


@pytest.mark.parametrize("op", ["mean", "sum", "max", "attention"])
def test_pools_are_converted(op: str) -> None:
    assert spec_from_document(document(pool=op)).layers[0] == PoolLayer(op=op)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["cat", "max"])
def test_jumping_knowledge_is_converted(mode: str) -> None:
    spec = spec_from_document(document({"type": "keep"}, {"type": "jump", "mode": mode}))
    assert spec.layers[:2] == (KeepLayer(), JumpLayer(mode=mode))  # type: ignore[arg-type]


def test_residual_connections_are_converted() -> None:
    spec = spec_from_document(
        document({"type": "keep"}, {"type": "gcn", "out": 3}, {"type": "add"})
    )
    assert spec.layers[:3] == (KeepLayer(), GcnLayer(3), AddLayer())
