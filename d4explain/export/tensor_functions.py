"""Translates functions of tensors to layers: arithmetic, activations, columns, pools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from d4explain.export.activations import activation_function
from d4explain.export.index_functions import (
    bin_count,
    get_item,
    index_select,
    scatter_add,
    scatter_reduce,
)
from d4explain.export.recording import Recorder, Stack, Value, tensors_in
from d4explain.export.translation import UnsupportedLayerError, argument
from d4explain.gnn.spec import (
    AffineLayer,
    ColumnsLayer,
    CombineLayer,
    CombineOp,
    EmbeddingLayer,
    LinearLayer,
    NormalizeLayer,
    PoolLayer,
)

Arguments = tuple[Any, ...]
Options = dict[str, Any]
Handler = Callable[[Recorder, str, Arguments, Options, Any], None]


class RecordingMode(TorchFunctionMode):
    """Passes every function of tensors that depend on the graphs to its handler."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, func: Any, types: Any, args: Arguments = (), kwargs: Options | None = None
    ) -> Any:
        options = kwargs or {}
        result = func(*args, **options)
        if self._recorder.inside_layer or not self._recorder.is_known((args, options)):
            return result
        if next(tensors_in(result), None) is not None:
            self._record(func, args, options, result)
        return result

    def _record(self, func: Any, args: Arguments, options: Options, result: Any) -> None:
        name = _plain_name(func)
        if name in _CREATE:
            return
        handler = HANDLERS.get(name, _unknown)
        try:
            handler(self._recorder, name, args, options, result)
        except UnsupportedLayerError as problem:
            self._recorder.refuse(str(problem), (args, options), result, name)


def _plain_name(func: Any) -> str:
    """`add` for `__add__`, `__iadd__` and `add_`; `radd` for `__radd__`."""
    name: str = getattr(func, "__name__", str(func))
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
        if name.startswith("i") and name[1:] in HANDLERS:
            name = name[1:]
    return name.rstrip("_")


def _unknown(_recorder: Recorder, name: str, _args: Arguments, _options: Options, _r: Any) -> None:
    hint = _HINTS.get(name)
    raise UnsupportedLayerError(
        f"the function {name} is not supported" + (f"; {hint}" if hint else "")
    )


_HINTS = {
    "norm": "to divide rows by their length, use torch.nn.functional.normalize",
    "linalg_vector_norm": "to divide rows by their length, use torch.nn.functional.normalize",
    "argmax": "an embedding needs a column of whole numbers instead of one-hot columns",
    "softmax": "it can only be the last step",
    "topk": "a pool that drops nodes has no counterpart for soft edges",
    "sort": "a pool that orders nodes has no counterpart for soft edges",
    "exp": "activations, sums, products and quotients are",
}
# They return tensors of their own, whatever the values of their arguments.
_CREATE = frozenset(
    {"new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "zeros_like", "ones_like"}
    | {"full_like", "empty_like", "rand_like", "randn_like"}
)


def operand(recorder: Recorder, value: object, name: str) -> Value | float:
    """A value or a plain number; a constant row becomes a value."""
    if isinstance(value, int | float):
        return float(value)
    symbol = recorder.symbol(value)
    if isinstance(symbol, Value):
        return symbol
    if not isinstance(value, Tensor) or symbol is not None:
        raise UnsupportedLayerError(f"{name} of {type(value).__name__} is not supported")
    if value.numel() == 1:
        return float(value)
    rows = value.reshape(-1, value.shape[-1])
    if not bool((rows == rows[:1]).all()):
        raise UnsupportedLayerError(
            f"{name} with a tensor of shape {tuple(value.shape)} that does not come from the "
            "inputs; a constant must be the same for all rows"
        )
    return Value(recorder.constant(rows[0], "constant"))


def _arithmetic(op: CombineOp, swapped: bool = False) -> Handler:
    def handle(r: Recorder, name: str, args: Arguments, options: Options, result: Any) -> None:
        first, second = args[0], argument(args, options, 1, "other")
        if options.get("rounding_mode") is not None:
            raise UnsupportedLayerError(f"{name} with rounding_mode is not supported")
        factor = options.get("alpha", 1)
        if factor != 1:
            raise UnsupportedLayerError(f"alpha={factor}; only alpha=1 is supported")
        left, right = (operand(r, one, name) for one in (first, second))
        if swapped:
            left, right = right, left
        if isinstance(left, Value) and isinstance(right, Value):
            _of_values(r, op, (left.number, right.number), result, name)
        elif isinstance(left, Value) and isinstance(right, float):
            _with_number(r, op, left.number, right, result, name)
        elif isinstance(left, float) and isinstance(right, Value):
            _number_with(r, op, left, right.number, result, name)

    return handle


def _of_values(
    r: Recorder, op: CombineOp, read: tuple[int, int], result: Tensor, name: str
) -> None:
    left, right = read
    if op == "divide" and right in r.node_counts and r.layer_of(left) == PoolLayer("sum"):
        r.emit(PoolLayer("mean"), r.operations[left - 1].inputs, result, "mean pool")
        return
    _check_shape(r, read, result, name)
    r.emit(CombineLayer(op), read, result, name)


def _with_number(
    r: Recorder, op: CombineOp, number: int, constant: float, result: Tensor, name: str
) -> None:
    """op(value, number)."""
    match op:
        case "add":
            layer = AffineLayer(shift=constant)
        case "subtract":
            layer = AffineLayer(shift=-constant)
        case "multiply":
            layer = AffineLayer(scale=constant)
        case "divide" if constant:
            layer = AffineLayer(scale=1 / constant)
        case _:
            _with_constant(r, op, number, constant, result, name)
            return
    _affine(r, layer, number, result, name)


def _number_with(
    r: Recorder, op: CombineOp, constant: float, number: int, result: Tensor, name: str
) -> None:
    """op(number, value)."""
    if op == "subtract":
        _affine(r, AffineLayer(-1.0, constant), number, result, name)
    elif op == "divide":
        row = r.constant(result.new_tensor([constant]), "constant")
        r.emit(CombineLayer(op), (row, number), result, name)
    else:
        _with_number(r, op, number, constant, result, name)


def _affine(r: Recorder, layer: AffineLayer, number: int, result: Tensor, name: str) -> None:
    if layer == AffineLayer():  # 0 + x, as in sum()
        r.bind(result, Value(number))
    else:
        r.emit(layer, (number,), result, name)


def _with_constant(
    r: Recorder, op: CombineOp, number: int, bound: float, result: Tensor, name: str
) -> None:
    row = r.constant(result.new_tensor([bound]), "constant")
    combined = r.emit(CombineLayer(op), (number, row), result, name)
    if number in r.node_counts and (op, bound) == ("maximum", 1.0):
        r.node_counts.add(combined)


def _check_shape(r: Recorder, read: tuple[int, ...], result: Tensor, name: str) -> None:
    """Refuses [n] with [n, 1], which torch combines to [n, n]."""
    width = max(r.width(number) for number in read)
    expected = {(len(result), width)} | ({(len(result),)} if width == 1 else set())
    if tuple(result.shape) not in expected:
        raise UnsupportedLayerError(
            f"{name} gives a tensor of shape {tuple(result.shape)}; expected {width} per row"
        )


def _clamp(r: Recorder, name: str, args: Arguments, options: Options, result: Any) -> None:
    number = _value(r, args, name)
    lowest = argument(args, options, 1, "min", None)
    highest = argument(args, options, 2, "max", None)
    if isinstance(lowest, Tensor) or isinstance(highest, Tensor) or None not in (lowest, highest):
        raise UnsupportedLayerError("clamp takes one of min and max, as a number")
    if lowest is not None:
        _with_constant(r, "maximum", number, float(lowest), result, name)
    else:
        _with_constant(r, "minimum", number, float(highest), result, name)


def _negative(r: Recorder, name: str, args: Arguments, _options: Options, result: Any) -> None:
    r.emit(AffineLayer(-1.0), (_value(r, args, name),), result, name)


def _square(r: Recorder, name: str, args: Arguments, options: Options, result: Any) -> None:
    number = _value(r, args, name)
    if name == "pow" and argument(args, options, 1, "exponent") != 2:
        raise UnsupportedLayerError("pow is supported with the exponent 2 only")
    r.emit(CombineLayer("multiply"), (number, number), result, name)


def _activation(r: Recorder, name: str, args: Arguments, options: Options, result: Any) -> None:
    layer = activation_function(name, args, options)
    r.emit(layer, (_value(r, args, name),), result, name)


def _final(r: Recorder, name: str, args: Arguments, options: Options, result: Any) -> None:
    dim = argument(args, options, 1, "dim", None)
    if dim not in (1, -1):
        raise UnsupportedLayerError(f"dim={dim}; only dim=1 or dim=-1 is supported")
    kind: Any = name
    r.emit_final(kind, _value(r, args, name), result, name)


def _dropout(r: Recorder, name: str, args: Arguments, options: Options, result: Any) -> None:
    probability = argument(args, options, 1, "p", 0.5)
    if probability and argument(args, options, 2, "training", True):
        raise UnsupportedLayerError(
            f"{name} is active in eval mode; write {name}(x, p, training=self.training)"
        )
    r.bind(result, Value(_value(r, args, name)))


def _concatenate(r: Recorder, name: str, args: Arguments, options: Options, result: Any) -> None:
    parts = argument(args, options, 0, "tensors")
    dim = argument(args, options, 1, "dim", 0)
    if dim not in (1, -1) and name != "hstack":
        raise UnsupportedLayerError(f"dim={dim}; only dim=1 or dim=-1 is supported")
    read = [operand(r, part, name) for part in parts]
    numbers = [
        one.number if isinstance(one, Value) else r.constant(torch.tensor([one]), name)
        for one in read
    ]
    r.emit(CombineLayer("concat"), numbers, result, name)


def _stack(r: Recorder, name: str, args: Arguments, options: Options, result: Any) -> None:
    numbers = [r.number(part) for part in argument(args, options, 0, "tensors")]
    if None in numbers:
        raise UnsupportedLayerError("stack of tensors that are no values of nodes or graphs")
    dim = argument(args, options, 1, "dim", 0)
    r.bind(result, Stack(tuple(n for n in numbers if n is not None), dim % result.dim()))


def _reduce(r: Recorder, name: str, args: Arguments, options: Options, result: Any) -> None:
    dim = argument(args, options, 1, "dim", None)
    dims = dim if isinstance(dim, list | tuple) else [dim]
    source = r.symbol(args[0])
    first = next(tensors_in(result))
    size = args[0].dim()
    if isinstance(source, Stack) and len(dims) == 1 and dims[0] in (source.dim, source.dim - size):
        op: CombineOp = {"sum": "add", "mean": "mean"}.get(name, "maximum")  # type: ignore[assignment]
        r.emit(CombineLayer(op), source.numbers, first, name)
        return
    number = _value(r, args, name)
    if name in ("sum", "mean") and len(dims) == 1 and dims[0] in (-1, 1) and size == 2:
        width = r.width(number)
        weight = first.new_full((1, width), 1.0 if name == "sum" else 1 / width)
        r.emit(LinearLayer(1, bias=False), (number,), first, name, {"linear.weight": weight})
        return
    pool = {"sum": "add", "amax": "max"}.get(name, name)
    raise UnsupportedLayerError(
        f"{name} over rows joins all graphs of a batch; use global_{pool}_pool(x, batch)"
    )


def _linear(r: Recorder, name: str, args: Arguments, options: Options, result: Any) -> None:
    number = _value(r, args, name)
    weight = argument(args, options, 1, "other" if name != "linear" else "weight")
    bias = argument(args, options, 2, "bias", None) if name == "linear" else None
    if not isinstance(weight, Tensor) or weight.dim() != 2 or r.is_known([weight, bias]):
        raise UnsupportedLayerError(f"{name} needs a constant matrix as its second argument")
    tensors = {"linear.weight": weight if name == "linear" else weight.T}
    if bias is not None:
        tensors["linear.bias"] = bias
    layer = LinearLayer(len(tensors["linear.weight"]), bias=bias is not None)
    r.emit(layer, (number,), result, name, tensors)


def _normalize(r: Recorder, name: str, args: Arguments, options: Options, result: Any) -> None:
    power, dim = argument(args, options, 1, "p", 2.0), argument(args, options, 2, "dim", 1)
    if power != 2 or dim not in (1, -1) or argument(args, options, 3, "eps", 1e-12) != 1e-12:
        raise UnsupportedLayerError("normalize is supported with p=2 and dim=1 or dim=-1 only")
    r.emit(NormalizeLayer(), (_value(r, args, name),), result, name)


def _split(r: Recorder, name: str, args: Arguments, options: Options, result: Any) -> None:
    number = _value(r, args, name)
    if argument(args, options, 2, "dim", 0) not in (1, -1):
        raise UnsupportedLayerError(f"{name} is supported along columns only, with dim=1 or dim=-1")
    start = 0
    for part in result:
        r.emit(ColumnsLayer(start, start + part.shape[1]), (number,), part, name)
        start += part.shape[1]


def _embedding(r: Recorder, name: str, args: Arguments, options: Options, result: Any) -> None:
    weight = argument(args, options, 1, "weight")
    if r.is_known([weight]) or argument(args, options, 3, "max_norm", None) is not None:
        raise UnsupportedLayerError("the table of an embedding must be constant, without max_norm")
    embed(r, args[0], weight, result, name)


def embed(r: Recorder, index: Tensor, weight: Tensor, result: Tensor, label: str) -> None:
    """Records the rows of `weight` that a column of the inputs chooses."""
    number = r.number(index)
    if number is None:
        return  # the index does not depend on the graph, so the result is constant
    column, layer = 0, r.layer_of(number)
    if isinstance(layer, ColumnsLayer):
        column, number = layer.start, r.operations[number - 1].inputs[0]
        width = layer.stop - layer.start
    else:
        width = r.width(number)
    if number > 0 or width != 1:
        raise UnsupportedLayerError(
            "an embedding reads one column of x or edge_attr, which holds whole numbers"
        )
    count, out = weight.shape
    layer = EmbeddingLayer(count, out, column)
    r.emit(layer, (number,), result, label, {"embedding.weight": weight})


def _same(r: Recorder, name: str, args: Arguments, _options: Options, result: Any) -> None:
    """The same numbers in another type or shape: rows must stay rows."""
    source = r.symbol(args[0])
    if source is None or not isinstance(result, Tensor):
        raise UnsupportedLayerError(f"{name} of these arguments is not supported")
    if isinstance(source, Value):
        number = source.number
        keeps_rows = result.dim() and len(result) == len(args[0])
        keeps_width = result.numel() == args[0].numel() and result.dim() <= 2
        if not keeps_rows or not (keeps_width or r.width(number) == 1):
            shapes = f"from {tuple(args[0].shape)} to {tuple(result.shape)}"
            raise UnsupportedLayerError(f"{name} {shapes} is not supported; rows must stay rows")
    r.bind(result, source)


def _unbind(r: Recorder, name: str, args: Arguments, _options: Options, result: Any) -> None:
    for position, part in enumerate(result):
        get_item(r, name, (args[0], position), {}, part)


def _value(r: Recorder, args: Arguments, name: str) -> int:
    number = r.number(args[0])
    if number is None:
        raise UnsupportedLayerError(f"{name} is supported for values of nodes, edges and graphs")
    return number


def _table(handler: Handler, names: str) -> dict[str, Handler]:
    return dict.fromkeys(names.split(), handler)


HANDLERS: dict[str, Handler] = {
    **_table(_arithmetic("add"), "add radd"),
    **_table(_arithmetic("subtract"), "sub subtract"),
    **_table(_arithmetic("subtract", swapped=True), "rsub"),
    **_table(_arithmetic("multiply"), "mul multiply rmul"),
    **_table(_arithmetic("divide"), "div divide truediv true_divide"),
    **_table(_arithmetic("divide", swapped=True), "rdiv rtruediv"),
    **_table(_arithmetic("maximum"), "maximum"),
    **_table(_arithmetic("minimum"), "minimum"),
    **_table(_clamp, "clamp clamp_min clip"),
    **_table(_negative, "neg negative"),
    **_table(_square, "square pow"),
    **_table(_activation, "relu leaky_relu elu selu gelu silu softplus tanh sigmoid"),
    **_table(_final, "log_softmax softmax"),
    **_table(_dropout, "dropout feature_dropout alpha_dropout"),
    **_table(_concatenate, "cat concat concatenate hstack"),
    **_table(_stack, "stack"),
    **_table(_reduce, "sum mean max amax"),
    **_table(_linear, "linear matmul mm"),
    **_table(_normalize, "normalize"),
    **_table(_split, "split chunk"),
    **_table(_embedding, "embedding"),
    **_table(_same, "view reshape squeeze unsqueeze flatten expand expand_as view_as reshape_as"),
    **_table(_same, "contiguous clone detach to float double long int type type_as cpu cuda get"),
    **_table(_same, "requires_grad nan_to_num"),
    **_table(_unbind, "unbind"),
    **_table(get_item, "getitem"),
    **_table(index_select, "index_select"),
    **_table(scatter_add, "scatter_add index_add"),
    **_table(scatter_reduce, "scatter_reduce"),
    **_table(bin_count, "bincount"),
}
