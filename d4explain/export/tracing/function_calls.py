"""One call of a tensor function, with what handlers need to translate it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor

from d4explain.export.tracing.recording import Recorder, Value
from d4explain.export.translators.translation import UnsupportedLayerError, argument
from d4explain.gnn.spec import ColumnsLayer, EmbeddingLayer, Layer


@dataclass(frozen=True)
class FunctionCall:
    recorder: Recorder
    name: str
    args: tuple[Any, ...]
    options: dict[str, Any]
    result: Any

    def argument(self, position: int, name: str, *default: Any) -> Any:
        return argument(self.args, self.options, position, name, *default)

    @property
    def value(self) -> int:
        """The number of the first argument, which must be a value."""
        number = self.recorder.number(self.args[0])
        if number is None:
            raise UnsupportedLayerError(
                f"{self.name} is supported for values of nodes, edges and graphs"
            )
        return number

    def emit(self, layer: Layer, read: Sequence[int], **tensors: Tensor) -> int:
        """Records the whole call as one layer; `__` in a tensor's name stands for a dot."""
        named = {name.replace("__", "."): tensor for name, tensor in tensors.items()}
        return self.recorder.emit(layer, read, self.result, self.name, named)

    def constant(self, number: float) -> int:
        """The value of a plain number."""
        return self.recorder.constant(self.result.new_tensor([number]), "constant")


Handler: TypeAlias = Callable[[FunctionCall], None]


def operand(call: FunctionCall, value: object) -> Value | float:
    """A value or a plain number; a constant row becomes a value."""
    if isinstance(value, int | float):
        return float(value)
    symbol = call.recorder.symbol(value)
    if isinstance(symbol, Value):
        return symbol
    if not isinstance(value, Tensor) or symbol is not None:
        raise UnsupportedLayerError(f"{call.name} of {type(value).__name__} is not supported")
    if value.numel() == 1:
        return float(value)
    rows = value.reshape(-1, value.shape[-1])
    if not bool((rows == rows[:1]).all()):
        raise UnsupportedLayerError(
            f"{call.name} with a tensor of shape {tuple(value.shape)} that does not come from the "
            "inputs; a constant must be the same for all rows"
        )
    return Value(call.recorder.constant(rows[0], "constant"))


def embed(r: Recorder, index: Tensor, weight: Tensor, result: Tensor, label: str) -> None:
    """Records the rows of `weight` that a column of the inputs chooses."""
    number = r.number(index)
    if number is None:
        return  # the index does not depend on the graph, so the result is constant
    column, width, layer = 0, r.width(number), r.layer_of(number)
    if isinstance(layer, ColumnsLayer):
        column, number = layer.start, r.operations[number - 1].inputs[0]
    if number > 0 or width != 1:
        raise UnsupportedLayerError(
            "an embedding reads one column of x or edge_attr, which holds whole numbers"
        )
    count, out = weight.shape
    table = EmbeddingLayer(count, out, column)
    r.emit(table, (number,), result, label, {"embedding.weight": weight})
