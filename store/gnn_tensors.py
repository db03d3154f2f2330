"""The tensors that a GNN of the vocabulary must have."""

from __future__ import annotations

from typing import NamedTuple

from store.gnn_layers import (
    BatchNormDocument,
    ConvolutionDocument,
    GatDocument,
    GatV2Document,
    GcnDocument,
    GinDocument,
    GraphConvDocument,
    GraphNormDocument,
    LayerDocument,
    LayerNormDocument,
    LinearDocument,
    PoolDocument,
    SageDocument,
)
from store.gnn_spec import GnnSpecDocument, widths_of


class TensorShape(NamedTuple):
    shape: tuple[int, ...]
    dtype: str  # numpy's name


def expected_tensors(spec: GnnSpecDocument) -> dict[str, TensorShape]:
    """Exactly the state_dict() of the GNN that the worker builds from this spec."""
    return {
        f"layers.{i}.{name}": tensor
        for i, (layer, width) in enumerate(zip(spec.layers, widths_of(spec), strict=False))
        for name, tensor in _tensors(layer, width).items()
    }


def _tensors(layer: LayerDocument, width: int) -> dict[str, TensorShape]:
    """Those of one layer that gets `width` numbers per row; most have none."""
    if isinstance(layer, ConvolutionDocument):
        shapes = _convolution(layer, width)
        return {f"conv.{name}": _floats(*shape) for name, shape in shapes.items()}
    tensors: dict[str, TensorShape] = {}
    match layer:
        case LinearDocument():
            tensors = {"linear.weight": _floats(layer.out, width)}
            if layer.bias:
                tensors["linear.bias"] = _floats(layer.out)
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


def _convolution(layer: ConvolutionDocument, width: int) -> dict[str, tuple[int, ...]]:
    out = layer.out
    shapes: dict[str, tuple[int, ...]]
    match layer:
        case GcnDocument():
            shapes = {"lin.weight": (out, width), "bias": (out,)}
        case GinDocument():
            shapes = {
                "eps": (1,),  # PyG keeps it also when it is not trained
                "nn.0.weight": (layer.hidden, width),
                "nn.0.bias": (layer.hidden,),
                "nn.2.weight": (out, layer.hidden),
                "nn.2.bias": (out,),
            }
        case SageDocument():
            shapes = {"lin_l.weight": (out, width), "lin_r.weight": (out, width)}
            if layer.bias:
                shapes["lin_l.bias"] = (out,)
        case GraphConvDocument():
            shapes = {"lin_rel.weight": (out, width), "lin_root.weight": (out, width)}
            if layer.bias:
                shapes["lin_rel.bias"] = (out,)
        case GatDocument(heads=heads):
            shapes = {
                "att_src": (1, heads, out),
                "att_dst": (1, heads, out),
                "lin.weight": (heads * out, width),
                "bias": (layer.width,),
            }
        case GatV2Document(heads=heads):
            shapes = {
                "att": (1, heads, out),
                "lin_l.weight": (heads * out, width),
                "lin_l.bias": (heads * out,),
                "lin_r.weight": (heads * out, width),
                "lin_r.bias": (heads * out,),
                "bias": (layer.width,),
            }
    return shapes


def _floats(*shape: int) -> TensorShape:
    return TensorShape(shape, "float32")
