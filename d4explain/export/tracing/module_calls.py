"""Records calls of modules that the vocabulary has as layers, by hooks on the model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import (
    GINConv,
    GINEConv,
    JumpingKnowledge,
    Linear,
    SGConv,
)
from torch_geometric.nn.aggr import AttentionalAggregation

from d4explain.export.tracing.function_calls import embed
from d4explain.export.tracing.recording import Index, Recorder, Value, module_label
from d4explain.export.translators.convolutions import require_plain_sgc
from d4explain.export.translators.layers import is_layer, translate
from d4explain.export.translators.translation import (
    Translation,
    UnsupportedLayerError,
    or_zeros,
    require_initialised,
    require_one_of,
)
from d4explain.gnn.spec import (
    AppnpLayer,
    ColumnsLayer,
    CombineLayer,
    GraphNormLayer,
    LayerNormLayer,
    LinearLayer,
    PoolLayer,
)
from d4explain.gnn.vocabulary.roles import (
    is_convolution,
    reads_edge_attributes,
    takes_edge_weights,
)

Call = dict[str, Any]  # arguments of a call by their names


@contextmanager
def recorded_modules(recorder: Recorder, model: nn.Module) -> Iterator[None]:
    """Records the modules of the model while the context lasts."""
    handles: list[Any] = []
    for path, module in model.named_modules():
        handles += _hooks(recorder, module, module_label(model, path, module))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _hooks(r: Recorder, module: nn.Module, label: str) -> Iterator[Any]:
    kind = type(module)
    if kind in (GINConv, GINEConv):
        yield from _gin_hooks(r, module, label)
    elif isinstance(module, AttentionalAggregation):
        yield from _attention_hooks(r, module, label)
    elif kind in _SPECIAL:
        yield from _as_one_layer(r, module, label, _SPECIAL[kind])
    elif is_layer(module):
        yield from _as_one_layer(r, module, label, _translated)


Record = Callable[[Recorder, Any, Call, Any, str], None]


def _as_one_layer(r: Recorder, module: nn.Module, label: str, record: Record) -> Iterator[Any]:
    """Records a call of the module as a whole, and nothing inside it."""

    def before(_: nn.Module, _args: Any) -> None:
        r.inside_layer += 1

    def after(_: nn.Module, _args: Any, _output: Any) -> None:
        r.inside_layer -= 1

    yield module.register_forward_pre_hook(before)
    yield module.register_forward_hook(after)
    yield _after(r, module, label, record)


def _after(r: Recorder, module: nn.Module, label: str, record: Record) -> Any:
    """Registers `record` to run after each call of the module that depends on the graphs."""

    def hook(_: nn.Module, args: tuple[Any, ...], kwargs: Call, output: Any) -> None:
        if r.inside_layer or not r.is_known((args, kwargs)):
            return
        try:
            record(r, module, _bound(module, args, kwargs), output, label)
        except UnsupportedLayerError as problem:
            r.refuse(str(problem), (args, kwargs), output, label)

    return module.register_forward_hook(hook, with_kwargs=True)


def _bound(module: nn.Module, args: tuple[Any, ...], kwargs: Call) -> Call:
    return dict(inspect.signature(module.forward).bind(*args, **kwargs).arguments)


def _translated(r: Recorder, module: nn.Module, call: Call, output: Tensor, label: str) -> None:
    translation = translate(module)
    _record(r, translation, call, output, label)


def _record(r: Recorder, translation: Translation, call: Call, output: Tensor, label: str) -> None:
    layer = translation.layer
    number = _first_value(r, call)
    if translation.final_activation is not None:
        r.emit_final(translation.final_activation, number, output, label)
        return
    if layer is None:
        r.bind(output, Value(number))
        return
    expected = translation.input_width
    if expected not in (None, r.width(number)):
        raise UnsupportedLayerError(f"takes {expected} values per row, but gets {r.width(number)}")
    read = [number]
    if is_convolution(layer):
        read += _edges(r, layer, call)
    elif isinstance(layer, PoolLayer | GraphNormLayer) or layer == LayerNormLayer("graph"):
        _require_batch(r, call)
    r.emit(layer, read, output, label, translation.tensors)


def _first_value(r: Recorder, call: Call) -> int:
    first = next(iter(call.values()))
    number = r.number(first)
    if number is None:
        what = "several tensors" if isinstance(first, list | tuple) else "another input"
        raise UnsupportedLayerError(f"takes {what}; only one tensor of values is supported")
    return number


def _edges(r: Recorder, layer: Any, call: Call) -> list[int]:
    """Checks the edges of a convolution; returns its edge weights or attributes, if it has any."""
    if r.symbol(call.get("edge_index")) is not Index.EDGES:
        raise UnsupportedLayerError(
            "takes other edges than the model's edge_index; pass edge_index unchanged"
        )
    weights, attributes = call.get("edge_weight"), call.get("edge_attr")
    for name, value in call.items():
        known = name in ("x", "xs", "edge_index", "edge_weight", "edge_attr")
        if not known and name != next(iter(call)) and value is not None:
            raise UnsupportedLayerError(f"the argument {name} is not supported")
    if weights is not None and not takes_edge_weights(layer):
        raise UnsupportedLayerError(
            "takes edge_weight; only GCNConv, GraphConv with a sum and APPNP may"
        )
    if reads_edge_attributes(layer) and attributes is None:
        raise UnsupportedLayerError("reads edge attributes (edge_dim), but gets none")
    if attributes is not None and not reads_edge_attributes(layer):
        raise UnsupportedLayerError("gets edge_attr, but does not read it; set edge_dim")
    given = weights if attributes is None else attributes
    if given is None:
        return []
    number = r.number(given)
    if number is None or r.rows(number) != "edge":
        raise UnsupportedLayerError("takes edge values that do not come from the model's inputs")
    return [number]


def _require_batch(r: Recorder, call: Call) -> None:
    batch = call.get("batch", call.get("index"))
    if r.symbol(batch) is not Index.GRAPHS:
        raise UnsupportedLayerError("reads whole graphs, so it needs batch as its second argument")


def _gin_hooks(r: Recorder, conv: Any, label: str) -> Iterator[Any]:
    """GINConv calls its nn with a sum of values, which is a layer; the nn is recorded as usual."""
    calls: list[Call] = []

    def before(_: nn.Module, args: tuple[Any, ...], kwargs: Call) -> None:
        calls.append(_bound(conv, args, kwargs))
        r.inside_layer += 1

    def before_nn(_: nn.Module, args: tuple[Any, ...]) -> None:
        if not calls:
            return
        call = calls.pop()
        r.inside_layer -= 1
        if r.inside_layer or not r.is_known(call):
            return
        try:
            _record(r, translate(conv), call, args[0], label)
        except UnsupportedLayerError as problem:
            r.refuse(str(problem), call, args[0], label)

    yield conv.register_forward_pre_hook(before, with_kwargs=True)
    yield conv.nn.register_forward_pre_hook(before_nn, prepend=True)


def _attention_hooks(r: Recorder, pool: Any, label: str) -> Iterator[Any]:
    """Attentional pooling: Σ softmax(gate) · values, where gate and values may come from an MLP."""
    made: dict[str, Tensor] = {}
    gate_module = pool.gate_nn if pool.gate_mlp is None else pool.gate_mlp
    value_module = pool.nn if pool.mlp is None else pool.mlp

    def keep(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, _args: Any, output: Tensor) -> None:
            made[name] = output

        return hook

    def record(_r: Recorder, _module: nn.Module, call: Call, output: Tensor, _label: str) -> None:
        _require_batch(r, call)
        number = _first_value(r, call)
        gate = r.number(made.get("gate"))
        if gate is None or r.width(gate) != 1:
            raise UnsupportedLayerError(
                f"its gate_nn must return 1 value of supported layers; got {gate_module}"
            )
        if value_module is None and type(gate_module) in (nn.Linear, Linear):
            weight, bias = require_initialised(gate_module.weight), or_zeros(gate_module.bias, 1)
            tensors = {"pool.gate_nn.weight": weight, "pool.gate_nn.bias": bias}
            r.emit(PoolLayer("attention"), (number,), output, label, tensors)
            return
        values = number if value_module is None else r.number(made.get("values"))
        if values is None:
            raise UnsupportedLayerError("its nn must consist of supported layers")
        # A linear gate that reads the last column pools values by a gate computed before.
        width = r.width(values)
        chosen = torch.zeros(1, width + 1)
        chosen[0, width] = 1
        tensors = {"pool.gate_nn.weight": chosen, "pool.gate_nn.bias": torch.zeros(1)}
        both = r.emit(CombineLayer("concat"), (values, gate), None, label)
        pooled = r.emit(PoolLayer("attention"), (both,), None, label, tensors)
        r.emit(ColumnsLayer(0, width), (pooled,), output, label)

    yield gate_module.register_forward_hook(keep("gate"))
    if value_module is not None:
        yield value_module.register_forward_hook(keep("values"))
    yield _after(r, pool, label, record)


def _jumping_knowledge(r: Recorder, module: Any, call: Call, output: Tensor, label: str) -> None:
    require_one_of(module, "mode", ("cat", "max"))
    numbers = [r.number(one) for one in next(iter(call.values()))]
    if None in numbers:
        raise UnsupportedLayerError("joins tensors that are no values of nodes or graphs")
    layer = CombineLayer("concat" if module.mode == "cat" else "maximum")
    r.emit(layer, [one for one in numbers if one is not None], output, label)


def _sg_conv(r: Recorder, module: SGConv, call: Call, output: Tensor, label: str) -> None:
    """SGConv is a linear layer after K propagations."""
    require_plain_sgc(module)
    layer = AppnpLayer(module.K, 0.0)
    read = [_first_value(r, call), *_edges(r, layer, call)]
    propagated = r.emit(layer, read, None, label)
    tensors = {"linear.weight": require_initialised(module.lin.weight)}
    if module.lin.bias is not None:
        tensors["linear.bias"] = module.lin.bias
    linear = LinearLayer(module.lin.weight.shape[0], bias=module.lin.bias is not None)
    r.emit(linear, (propagated,), output, label, tensors)


def _embedding(r: Recorder, module: nn.Embedding, call: Call, output: Tensor, label: str) -> None:
    if module.max_norm is not None:
        raise UnsupportedLayerError(f"max_norm={module.max_norm}; only max_norm=None is supported")
    embed(r, next(iter(call.values())), module.weight, output, label)


_SPECIAL: dict[type, Record] = {
    JumpingKnowledge: _jumping_knowledge,
    SGConv: _sg_conv,
    nn.Embedding: _embedding,
}
