"""Converts stored GNN specs (JSON documents) to the specs that build torch networks."""

from __future__ import annotations

from d4explain.contracts.gnn_spec import GnnSpecDocument
from d4explain.contracts.spec_checks.layer_types import PluginDocument, SpecLayer
from d4explain.contracts.spec_checks.wiring import input_widths, nodes_of, outputs_of
from d4explain.gnn import spec as layers
from d4explain.gnn.spec import GnnSpec, Layer
from store.database import tables
from worker.loading.plugin_layers import plugin_layer, require_plugins

_LAYERS: dict[str, type[Layer]] = {
    "gcn": layers.GcnLayer,
    "gin": layers.GinLayer,
    "gin_sum": layers.GinSumLayer,
    "gine": layers.GineLayer,
    "gine_sum": layers.GineSumLayer,
    "sage": layers.SageLayer,
    "graph_conv": layers.GraphConvLayer,
    "gat": layers.GatLayer,
    "gatv2": layers.GatV2Layer,
    "pna": layers.PnaLayer,
    "tag": layers.TagLayer,
    "cheb": layers.ChebLayer,
    "egnn": layers.EgnnLayer,
    "appnp": layers.AppnpLayer,
    "linear": layers.LinearLayer,
    "activation": layers.ActivationLayer,
    "srelu": layers.ShiftedReluLayer,
    "dropout": layers.DropoutLayer,
    "batch_norm": layers.BatchNormLayer,
    "layer_norm": layers.LayerNormLayer,
    "graph_norm": layers.GraphNormLayer,
    "pool": layers.PoolLayer,
    "keep": layers.KeepLayer,
    "add": layers.AddLayer,
    "jump": layers.JumpLayer,
    "combine": layers.CombineLayer,
    "affine": layers.AffineLayer,
    "constant": layers.ConstantLayer,
    "columns": layers.ColumnsLayer,
    "embedding": layers.EmbeddingLayer,
    "normalize": layers.NormalizeLayer,
    "broadcast": layers.BroadcastLayer,
}


def spec_of(row: tables.Gnn) -> GnnSpec:
    """The spec of a stored GNN; raises PluginError if this worker lacks one of its plug-ins."""
    require_plugins(row.spec)
    return spec_from_document(GnnSpecDocument.model_validate(row.spec))


def spec_from_document(document: GnnSpecDocument) -> GnnSpec:
    outputs = outputs_of(document)
    inputs = tuple(node.inputs for node in nodes_of(document))
    return GnnSpec(
        features=document.features,
        edge_features=document.edge_features,
        classes=document.classes,
        layers=tuple(
            _layer(layer, widths[0] if widths else 0, outputs)
            for layer, widths in zip(document.layers, input_widths(document), strict=True)
        ),
        inputs=inputs if any(read is not None for read in inputs) else (),
    )


def _layer(document: SpecLayer, width: int, outputs: int) -> Layer:
    """Documents and layers have the same fields; each validates its own."""
    if isinstance(document, PluginDocument):
        return plugin_layer(document, width, outputs)
    fields = document.model_dump(exclude={"type", "name", "inputs"})
    # Layers must be hashable, so lists become tuples.
    fields = {name: tuple(x) if isinstance(x, list) else x for name, x in fields.items()}
    return _LAYERS[document.type](**fields)
