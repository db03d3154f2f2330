"""Writes a GNN spec as JSON for the API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from d4explain.errors import CommandError
from d4explain.gnn import spec as vocabulary
from d4explain.gnn.spec import GnnSpec, Layer
from d4explain.layer_graph import EDGE_ATTRIBUTES, FEATURES

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
    vocabulary.AppnpLayer: "appnp",
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
    vocabulary.CombineLayer: "combine",
    vocabulary.AffineLayer: "affine",
    vocabulary.ConstantLayer: "constant",
    vocabulary.ColumnsLayer: "columns",
    vocabulary.EmbeddingLayer: "embedding",
    vocabulary.NormalizeLayer: "normalize",
    vocabulary.BroadcastLayer: "broadcast",
}


def spec_document(
    spec: GnnSpec,
    class_names: Sequence[str] | None = None,
    value_names: Mapping[int, str] | None = None,
) -> dict[str, object]:
    """The spec as JSON; `value_names` are names for values that `spec.inputs` mentions."""
    document: dict[str, object] = {
        "task": "node" if spec.classifies_nodes else "graph",
        "head": "binary" if spec.binary else "softmax",
        "features": spec.features,
        "classes": spec.classes,
        "layers": list(_layer_documents(spec, value_names or {})),
    }
    if spec.edge_features:
        document["edge_features"] = spec.edge_features
    if class_names:
        if len(class_names) != spec.classes:
            raise CommandError(f"{len(class_names)} class names for {spec.classes} classes")
        document["class_names"] = list(class_names)
    return document


def _layer_documents(spec: GnnSpec, names: Mapping[int, str]) -> Iterator[dict[str, object]]:
    inputs = spec.inputs or (None,) * len(spec.layers)
    needed = {number for read in inputs if read is not None for number in read}
    known = {number: names.get(number, f"value_{number}") for number in needed}
    known |= {FEATURES: "x", EDGE_ATTRIBUTES: "edge_attr"}
    for number, (layer, read) in enumerate(zip(spec.layers, inputs, strict=True), 1):
        document = _layer_document(layer)
        if read is not None and not isinstance(layer, vocabulary.ConstantLayer):
            document["inputs"] = [known[value] for value in read]
        if number in known:
            document["name"] = known[number]
        yield document


def _layer_document(layer: Layer) -> dict[str, object]:
    fields = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(layer).items()
        if value is not None
    }
    return {"type": LAYER_TYPES[type(layer)], **fields}
