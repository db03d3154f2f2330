"""The tensors that the weights of a GNN must contain."""

from __future__ import annotations

from collections.abc import Sequence

from d4explain.contracts.gnn_layers import (
    AppnpDocument,
    BatchNormDocument,
    ChebDocument,
    ConvolutionDocument,
    EgnnDocument,
    GatDocument,
    GatV2Document,
    GcnDocument,
    GinDocument,
    GineDocument,
    GineSumDocument,
    GinSumDocument,
    GraphConvDocument,
    GraphNormDocument,
    LayerNormDocument,
    LinearDocument,
    PnaDocument,
    PoolDocument,
    SageDocument,
    ShiftedReluDocument,
    TagDocument,
)
from d4explain.contracts.gnn_spec import GnnSpecDocument
from d4explain.contracts.plugins import LayerPlugin, TensorShape
from d4explain.contracts.spec_checks.layer_types import PluginDocument, SpecLayer
from d4explain.contracts.spec_checks.wiring import input_widths, outputs_of
from d4explain.contracts.vocabulary.operations import ConstantDocument, EmbeddingDocument

Shapes = dict[str, tuple[int, ...]]


def expected_tensors(spec: GnnSpecDocument) -> dict[str, TensorShape]:
    """Names and shapes of the state_dict() of the GNN that the worker builds from this spec."""
    return {
        f"layers.{i}.{name}": tensor
        for i, (layer, widths) in enumerate(zip(spec.layers, input_widths(spec), strict=True))
        for name, tensor in _tensors(layer, widths, outputs_of(spec)).items()
    }


def _tensors(layer: SpecLayer, widths: Sequence[int], outputs: int) -> dict[str, TensorShape]:
    """Tensors of one layer with inputs of these widths."""
    width, edge_width = (*widths, 0, 0)[:2]
    if isinstance(layer, PluginDocument):
        own = plugin_tensors(layer, width, outputs)
        return {f"module.{name}": tensor for name, tensor in own.items()}
    if isinstance(layer, ConvolutionDocument):
        shapes = _convolution(layer, width, edge_width)
        return {f"conv.{name}": _floats(*shape) for name, shape in shapes.items()}
    return _plain_tensors(layer, width)


def _plain_tensors(layer: SpecLayer, width: int) -> dict[str, TensorShape]:
    """Tensors of a layer that is no convolution."""
    tensors: dict[str, TensorShape] = {}
    match layer:
        case LinearDocument():
            tensors = {"linear.weight": _floats(layer.out, width)}
            if layer.bias:
                tensors["linear.bias"] = _floats(layer.out)
        case ShiftedReluDocument():
            tensors = {"shift": _floats(width)}
        case ConstantDocument():
            tensors = {"value": _floats(layer.out)}
        case EmbeddingDocument():
            tensors = {"embedding.weight": _floats(layer.count, layer.out)}
        case BatchNormDocument():
            for name in ("weight", "bias", "running_mean", "running_var"):
                tensors[f"norm.{name}"] = _floats(width)
            tensors["norm.num_batches_tracked"] = TensorShape((), "int64")
        case LayerNormDocument():
            tensors = {f"norm.{name}": _floats(width) for name in ("weight", "bias")}
        case GraphNormDocument():
            tensors = {f"norm.{name}": _floats(width) for name in ("weight", "bias", "mean_scale")}
        case PoolDocument(op="attention"):
            tensors = {"pool.gate_nn.weight": _floats(1, width), "pool.gate_nn.bias": _floats(1)}
        case _:
            pass
    return tensors


def plugin_tensors(layer: PluginDocument, width: int, outputs: int) -> dict[str, TensorShape]:
    """Tensors of a plug-in's module, by their names in the module."""
    plugin, fields = layer.plugin, layer.fields
    if isinstance(plugin, LayerPlugin):
        tensors = plugin.tensors(fields, width)
    else:
        tensors = plugin.tensors(fields, width, outputs)
    return {
        name: tensor if isinstance(tensor, TensorShape) else TensorShape(tuple(tensor))
        for name, tensor in tensors.items()
    }


def _convolution(layer: ConvolutionDocument, width: int, edge_width: int) -> Shapes:
    shapes: Shapes
    match layer:
        case GcnDocument(out=out):
            shapes = {"lin.weight": (out, width), "bias": (out,)}
        case EgnnDocument(out=out):
            shapes = {"lin.weight": (out, width)}
        case AppnpDocument():
            shapes = {}
        case GinDocument() | GinSumDocument() | GineDocument() | GineSumDocument():
            shapes = _gin(layer, width, edge_width)
        case SageDocument(out=out):
            shapes = {"lin_l.weight": (out, width), "lin_r.weight": (out, width)}
            if layer.bias:
                shapes["lin_l.bias"] = (out,)
        case GraphConvDocument(out=out):
            shapes = {"lin_rel.weight": (out, width), "lin_root.weight": (out, width)}
            if layer.bias:
                shapes["lin_rel.bias"] = (out,)
        case GatDocument() | GatV2Document():
            shapes = _attention(layer, width, edge_width)
        case PnaDocument():
            shapes = _pna(layer, width)
        case TagDocument(out=out) | ChebDocument(out=out):
            count = layer.k + 1 if isinstance(layer, TagDocument) else layer.k
            shapes = {f"lins.{n}.weight": (out, width) for n in range(count)}
            if layer.bias:
                shapes["bias"] = (out,)
    return shapes


def _gin(
    layer: GinDocument | GinSumDocument | GineDocument | GineSumDocument,
    width: int,
    edge_width: int,
) -> Shapes:
    shapes: Shapes = {"eps": (1,)}  # PyG stores it even if it is not trained
    if isinstance(layer, GinDocument | GineDocument):
        shapes["nn.0.weight"] = (layer.hidden, width)
        shapes["nn.0.bias"] = (layer.hidden,)
        shapes["nn.2.weight"] = (layer.out, layer.hidden)
        shapes["nn.2.bias"] = (layer.out,)
    if isinstance(layer, GineDocument | GineSumDocument) and layer.project:
        shapes["lin.weight"] = (width, edge_width)
        shapes["lin.bias"] = (width,)
    return shapes


def _attention(layer: GatDocument | GatV2Document, width: int, edge_width: int) -> Shapes:
    heads, all_heads = layer.heads, layer.heads * layer.out
    shapes: Shapes = {"bias": (layer.width,)}
    if layer.edges:
        shapes["lin_edge.weight"] = (all_heads, edge_width)
    if isinstance(layer, GatDocument):
        if layer.edges:
            shapes["att_edge"] = (1, heads, layer.out)
        shapes["lin.weight"] = (all_heads, width)
        shapes["att_src"] = shapes["att_dst"] = (1, heads, layer.out)
    else:
        shapes["att"] = (1, heads, layer.out)
        for side in ("lin_l", "lin_r"):
            shapes |= {f"{side}.weight": (all_heads, width), f"{side}.bias": (all_heads,)}
    return shapes


def _pna(layer: PnaDocument, width: int) -> Shapes:
    each, out = layer.tower_width(width), layer.out // layer.towers  # of one tower
    aggregated = (len(layer.aggregators) * len(layer.scalers) + 1) * each
    shapes: Shapes = {
        "aggr_module.avg_deg_lin": (1,),
        "aggr_module.avg_deg_log": (1,),
        "lin.weight": (layer.out, layer.out),
        "lin.bias": (layer.out,),
    }
    for tower in range(layer.towers):
        shapes[f"pre_nns.{tower}.0.weight"] = (each, 2 * each)
        shapes[f"pre_nns.{tower}.0.bias"] = (each,)
        shapes[f"post_nns.{tower}.0.weight"] = (out, aggregated)
        shapes[f"post_nns.{tower}.0.bias"] = (out,)
    return shapes


def _floats(*shape: int) -> TensorShape:
    return TensorShape(shape, "float32")
