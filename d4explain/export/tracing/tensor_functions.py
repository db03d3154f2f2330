"""Translates functions of tensors to layers: arithmetic, activations, columns, pools."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from d4explain.export.tracing.arithmetic import arithmetic, clamp, negative, square
from d4explain.export.tracing.function_calls import FunctionCall, Handler, embed, operand
from d4explain.export.tracing.index_functions import (
    bin_count,
    get_item,
    index_select,
    item_of,
    scatter_add,
    scatter_reduce,
)
from d4explain.export.tracing.recording import Recorder, Stack, Value, tensors_in
from d4explain.export.translators.activations import activation_function
from d4explain.export.translators.translation import UnsupportedLayerError
from d4explain.gnn.spec import (
    ColumnsLayer,
    CombineLayer,
    CombineOp,
    LinearLayer,
    NormalizeLayer,
)


class RecordingMode(TorchFunctionMode):
    """Passes every function of tensors that depend on the graphs to its handler."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        options = kwargs or {}
        result = func(*args, **options)
        if self._recorder.inside_layer or not self._recorder.is_known((args, options)):
            return result
        name = _plain_name(func)
        args, options = _positional(args, options)
        if name == "setitem":  # it returns nothing but changes its first argument
            problem = "assigning rows or columns of a tensor is not supported; compute a new one"
            self._recorder.refuse(problem, args, args[0], name)
        elif next(tensors_in(result), None) is not None:
            self._record(FunctionCall(self._recorder, name, args, options, result))
        elif name in _DECIDE or name in _READ_NUMBERS:
            self._recorder.read_by_python(args, name, decides=name in _DECIDE)
        return result

    def _record(self, call: FunctionCall) -> None:
        if call.name in _CREATE:
            return
        try:
            HANDLERS.get(call.name, _unknown)(call)
            return
        except UnsupportedLayerError as error:
            problem = str(error)
        except (IndexError, KeyError, TypeError, ValueError, RuntimeError) as error:
            # Functions have more forms than handlers know; the user needs the line, not our stack.
            problem = f"{call.name} with these arguments is not supported ({error!r:.80})"
        self._recorder.refuse(problem, (call.args, call.options), call.result, call.name)


def _positional(
    args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with the first tensor in its place: relu(input=h) is relu(h)."""
    name = next((name for name in ("input", "tensor", "self") if name in options), None)
    if args or name is None:
        return args, options
    rest = {key: value for key, value in options.items() if key != name}
    return (options[name],), rest


def _plain_name(func: Any) -> str:
    """`add` for `__add__`, `__iadd__` and `add_`; `radd` for `__radd__`."""
    name: str = getattr(func, "__name__", str(func))
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
        if name.startswith("i") and name[1:] in HANDLERS:
            name = name[1:]
    return name.rstrip("_")


def _unknown(call: FunctionCall) -> None:
    hint = _HINTS.get(call.name)
    reason = f"the function {call.name} is not supported"
    raise UnsupportedLayerError(reason if hint is None else f"{reason}; {hint}")


_HINTS = {
    "norm": "to divide rows by their length, use torch.nn.functional.normalize",
    "linalg_vector_norm": "to divide rows by their length, use torch.nn.functional.normalize",
    "argmax": "an embedding needs a column of whole numbers instead of one-hot columns",
    "nan_to_num": "divide by torch.clamp(sum, min=1e-6), or use torch.nn.functional.normalize",
    "topk": "a pool that drops nodes has no counterpart for soft edges",
    "sort": "a pool that orders nodes has no counterpart for soft edges",
    "exp": "for a softmax over the nodes of a graph, use AttentionalAggregation",
    "where": "use an activation, torch.maximum or torch.minimum",
}
# Functions that give Python a number of a tensor, by which a model may branch or compute.
_DECIDE = frozenset({"bool", "is_nonzero", "equal", "allclose", "contains"})
_READ_NUMBERS = frozenset({"item", "int", "float", "index", "tolist", "numpy", "array"})
# They return tensors of their own, whatever the values of their arguments.
_CREATE = frozenset(
    {"new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "zeros_like", "ones_like"}
    | {"full_like", "empty_like", "rand_like", "randn_like"}
)


def _activation(call: FunctionCall) -> None:
    call.emit(activation_function(call.name, call.args, call.options), (call.value,))


def _final(call: FunctionCall) -> None:
    dim = call.argument(1, "dim", None)
    if dim not in (1, -1):
        raise UnsupportedLayerError(f"dim={dim}; only dim=1 or dim=-1 is supported")
    kind: Any = call.name
    call.recorder.emit_final(kind, call.value, call.result, call.name)


def _dropout(call: FunctionCall) -> None:
    if call.argument(1, "p", 0.5) and call.argument(2, "training", True):
        raise UnsupportedLayerError(
            f"{call.name} is active in eval mode; write {call.name}(x, p, training=self.training)"
        )
    call.recorder.bind(call.result, Value(call.value))


def _concatenate(call: FunctionCall) -> None:
    dim = call.argument(1, "dim", 0)
    if dim not in (1, -1) and call.name != "hstack":
        raise UnsupportedLayerError(f"dim={dim}; only dim=1 or dim=-1 is supported")
    read = [operand(call, part) for part in call.argument(0, "tensors")]
    numbers = [one.number if isinstance(one, Value) else call.constant(one) for one in read]
    call.emit(CombineLayer("concat"), numbers)


def _stack(call: FunctionCall) -> None:
    numbers = [call.recorder.number(part) for part in call.argument(0, "tensors")]
    if None in numbers:
        raise UnsupportedLayerError("stack of tensors that are no values of nodes or graphs")
    dim = call.argument(1, "dim", 0) % call.result.dim()
    known = tuple(number for number in numbers if number is not None)
    call.recorder.bind(call.result, Stack(known, dim))


_OF_STACK: dict[str, CombineOp] = {
    "sum": "add", "mean": "mean", "max": "maximum", "amax": "maximum",
}  # fmt: skip


def _reduce(call: FunctionCall) -> None:
    """Sum, mean or maximum of a stack of values, or the sum or mean of each row."""
    r, first = call.recorder, next(tensors_in(call.result))
    dim = call.argument(1, "dim", None)
    size = call.args[0].dim()
    source = r.symbol(call.args[0])
    if isinstance(source, Stack) and dim in (source.dim, source.dim - size):
        r.emit(CombineLayer(_OF_STACK[call.name]), source.numbers, first, call.name)
        return
    number = call.value
    if call.name in ("sum", "mean") and dim in (-1, 1, [-1], (-1,)) and size == 2:
        width = r.width(number)
        weight = first.new_full((1, width), 1.0 if call.name == "sum" else 1 / width)
        call.emit(LinearLayer(1, bias=False), (number,), linear__weight=weight)
        return
    pool = {"sum": "add", "amax": "max"}.get(call.name, call.name)
    raise UnsupportedLayerError(
        f"{call.name} over rows joins all graphs of a batch; use global_{pool}_pool(x, batch)"
    )


def _linear(call: FunctionCall) -> None:
    is_linear = call.name == "linear"
    weight = call.argument(1, "weight" if is_linear else "other")
    bias = call.argument(2, "bias", None) if is_linear else None
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        raise UnsupportedLayerError(f"{call.name} needs a matrix as its second argument")
    if call.recorder.is_known([weight, bias]):
        raise UnsupportedLayerError(f"{call.name} with a matrix that depends on the graph")
    weight = weight if is_linear else weight.T
    tensors = {"linear__weight": weight} | ({} if bias is None else {"linear__bias": bias})
    call.emit(LinearLayer(len(weight), bias=bias is not None), (call.value,), **tensors)


def _normalize(call: FunctionCall) -> None:
    power, dim = call.argument(1, "p", 2.0), call.argument(2, "dim", 1)
    if power != 2 or dim not in (1, -1) or call.argument(3, "eps", 1e-12) != 1e-12:
        raise UnsupportedLayerError("normalize is supported with p=2 and dim=1 or dim=-1 only")
    call.emit(NormalizeLayer(), (call.value,))


def _split(call: FunctionCall) -> None:
    number, start = call.value, 0
    if call.argument(2, "dim", 0) not in (1, -1):
        raise UnsupportedLayerError(f"{call.name} is supported for columns only, with dim=1")
    for part in call.result:
        stop = start + part.shape[1]
        call.recorder.emit(ColumnsLayer(start, stop), (number,), part, call.name)
        start = stop


def _embedding(call: FunctionCall) -> None:
    weight = call.argument(1, "weight")
    if call.recorder.is_known([weight]) or call.argument(3, "max_norm", None) is not None:
        raise UnsupportedLayerError("the table of an embedding must be constant, without max_norm")
    embed(call.recorder, call.args[0], weight, call.result, call.name)


def _same(call: FunctionCall) -> None:
    """The same numbers in another type or shape: rows must stay rows."""
    before, after = call.args[0], call.result
    source = call.recorder.symbol(before)
    if source is None or not isinstance(after, Tensor):
        raise UnsupportedLayerError(f"{call.name} of these arguments is not supported")
    if isinstance(source, Value):
        keeps_rows = after.dim() > 0 and len(after) == len(before)
        keeps_width = after.numel() == before.numel() and after.dim() <= 2
        if not keeps_rows or not (keeps_width or call.recorder.width(source.number) == 1):
            shapes = f"from {tuple(before.shape)} to {tuple(after.shape)}"
            raise UnsupportedLayerError(f"{call.name} {shapes}: rows must stay rows")
    call.recorder.bind(after, source)


def _unbind(call: FunctionCall) -> None:
    for position, part in enumerate(call.result):
        item_of(call.recorder, call.args[0], position, part)


def _table(handler: Handler, names: str) -> dict[str, Handler]:
    return dict.fromkeys(names.split(), handler)


HANDLERS: dict[str, Handler] = {
    **_table(arithmetic("add"), "add radd"),
    **_table(arithmetic("subtract"), "sub subtract"),
    **_table(arithmetic("subtract", swapped=True), "rsub"),
    **_table(arithmetic("multiply"), "mul multiply rmul"),
    **_table(arithmetic("divide"), "div divide truediv true_divide"),
    **_table(arithmetic("divide", swapped=True), "rdiv rtruediv"),
    **_table(arithmetic("maximum"), "maximum"),
    **_table(arithmetic("minimum"), "minimum"),
    **_table(clamp, "clamp clamp_min clip"),
    **_table(negative, "neg negative"),
    **_table(square, "square pow"),
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
    **_table(_same, "requires_grad"),
    **_table(_unbind, "unbind"),
    **_table(get_item, "getitem"),
    **_table(index_select, "index_select"),
    **_table(scatter_add, "scatter_add index_add"),
    **_table(scatter_reduce, "scatter_reduce"),
    **_table(bin_count, "bincount"),
}
