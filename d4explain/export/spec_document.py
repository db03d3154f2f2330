"""Writes a GNN spec as JSON for the API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from d4explain.errors import CommandError
from d4explain.gnn import spec as vocabulary
from d4explain.gnn.spec import GnnSpec, Layer

LAYER_TYPES: dict[type[Layer], str] = {
    vocabulary.GcnLayer: "gcn",
    vocabulary.GinLayer: "gin",
    vocabulary.GinSumLayer: "gin_sum",
    vocabulary.GineLayer: "gine",
    vocabulary.GineSumLayer: "gine_sum",
    vocabulary.SageLayer: "sage",
    vocabulary.GraphConvLayer: "graph_conv",
    vocabulary.GatLayer: "gat",
    vocabulary.GatV2Layer: "gatv2",
    vocabulary.PnaLayer: "pna",
    vocabulary.TagLayer: "tag",
    vocabulary.ChebLayer: "cheb",
    vocabulary.EgnnLayer: "egnn",
    vocabulary.LinearLayer: "linear",
    vocabulary.ActivationLayer: "activation",
    vocabulary.ShiftedReluLayer: "srelu",
    vocabulary.DropoutLayer: "dropout",
    vocabulary.BatchNormLayer: "batch_norm",
    vocabulary.LayerNormLayer: "layer_norm",
    vocabulary.GraphNormLayer: "graph_norm",
    vocabulary.PoolLayer: "pool",
    vocabulary.KeepLayer: "keep",
    vocabulary.AddLayer: "add",
    vocabulary.JumpLayer: "jump",
}


def spec_document(spec: GnnSpec, class_names: Sequence[str] | None = None) -> dict[str, object]:
    document: dict[str, object] = {
        "task": "node" if spec.classifies_nodes else "graph",
        "head": "binary" if spec.binary else "softmax",
        "features": spec.features,
        "classes": spec.classes,
        "layers": [_layer_document(layer) for layer in spec.layers],
    }
    if spec.edge_features:
        document["edge_features"] = spec.edge_features
    if class_names:
        if len(class_names) != spec.classes:
            raise CommandError(f"{len(class_names)} class names for {spec.classes} classes")
        document["class_names"] = list(class_names)
    return document


def _layer_document(layer: Layer) -> dict[str, object]:
    fields = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(layer).items()
        if value is not None
    }
    return {"type": LAYER_TYPES[type(layer)], **fields}
