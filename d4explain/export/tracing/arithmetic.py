"""Translates arithmetic of tensors: with each other, with constants and with bounds."""

from __future__ import annotations

from d4explain.export.tracing.function_calls import FunctionCall, Handler, operand
from d4explain.export.tracing.recording import Value
from d4explain.export.translators.translation import UnsupportedLayerError
from d4explain.gnn.spec import AffineLayer, CombineLayer, CombineOp, PoolLayer


def arithmetic(op: CombineOp, *, swapped: bool = False) -> Handler:
    """The handler of op(first, second), or of op(second, first)."""

    def handle(call: FunctionCall) -> None:
        for option, default in (("rounding_mode", None), ("alpha", 1)):
            value = call.options.get(option, default)
            if value != default:
                raise UnsupportedLayerError(f"{option}={value!r}; only {default!r} is supported")
        left, right = (operand(call, one) for one in (call.args[0], call.argument(1, "other")))
        if swapped:
            left, right = right, left
        if isinstance(left, Value) and isinstance(right, Value):
            _of_values(call, op, left.number, right.number)
        elif isinstance(left, Value) and isinstance(right, float):
            _with_number(call, op, left.number, right)
        elif isinstance(left, float) and isinstance(right, Value):
            _number_with(call, op, left, right.number)

    return handle


def _of_values(call: FunctionCall, op: CombineOp, left: int, right: int) -> None:
    r = call.recorder
    if op == "divide" and right in r.node_counts and r.layer_of(left) == PoolLayer("sum"):
        r.emit(PoolLayer("mean"), r.operations[left - 1].inputs, call.result, "mean pool")
        return
    width = max(r.width(left), r.width(right))
    shape, rows = tuple(call.result.shape), len(call.result)
    if shape != (rows, width) and (width > 1 or shape != (rows,)):
        # torch combines [n] with [n, 1] to [n, n]
        raise UnsupportedLayerError(
            f"{call.name} gives a tensor of shape {shape}; expected {width} per row"
        )
    call.emit(CombineLayer(op), (left, right))


def _with_number(call: FunctionCall, op: CombineOp, number: int, constant: float) -> None:
    """op(value, number)."""
    match op:
        case "add":
            _affine(call, AffineLayer(shift=constant), number)
        case "subtract":
            _affine(call, AffineLayer(shift=-constant), number)
        case "multiply":
            _affine(call, AffineLayer(scale=constant), number)
        case "divide" if constant:
            _affine(call, AffineLayer(scale=1 / constant), number)
        case _:
            call.emit(CombineLayer(op), (number, call.constant(constant)))


def _number_with(call: FunctionCall, op: CombineOp, constant: float, number: int) -> None:
    """op(number, value)."""
    if op == "subtract":
        _affine(call, AffineLayer(-1.0, constant), number)
    elif op == "divide":
        call.emit(CombineLayer(op), (call.constant(constant), number))
    else:
        _with_number(call, op, number, constant)


def _affine(call: FunctionCall, layer: AffineLayer, number: int) -> None:
    if layer == AffineLayer():  # 0 + x, as in sum()
        call.recorder.bind(call.result, Value(number))
    else:
        call.emit(layer, (number,))


def clamp(call: FunctionCall) -> None:
    lowest, highest = call.argument(1, "min", None), call.argument(2, "max", None)
    given = [bound for bound in (lowest, highest) if bound is not None]
    if len(given) != 1 or not isinstance(given[0], int | float):
        raise UnsupportedLayerError("clamp takes one of min and max, as a number")
    op: CombineOp = "minimum" if lowest is None else "maximum"
    read = (call.value, call.constant(float(given[0])))
    bounded = call.emit(CombineLayer(op), read)
    if call.value in call.recorder.node_counts and lowest == 1:
        call.recorder.node_counts.add(bounded)


def negative(call: FunctionCall) -> None:
    call.emit(AffineLayer(-1.0), (call.value,))


def square(call: FunctionCall) -> None:
    if call.name == "pow" and call.argument(1, "exponent") != 2:
        raise UnsupportedLayerError("pow is supported with the exponent 2 only")
    call.emit(CombineLayer("multiply"), (call.value, call.value))
