"""Records the operations that a model applies to graphs, as layers of the vocabulary."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import CodeType
from typing import Any, TypeAlias

import torch
import torch_geometric
from torch import Tensor, nn
from torch_geometric.nn import Sequential

from d4explain.export.translators.translation import FinalActivation
from d4explain.gnn.spec import ConstantLayer, Layer
from d4explain.gnn.vocabulary.roles import output_width, role_of
from d4explain.layer_graph import EDGE_ATTRIBUTES, FEATURES, Inputs, Rows, rows_after

_TORCH = str(Path(str(torch.__file__)).parent) + os.sep
_OWN = str(Path(__file__).parents[2]) + os.sep  # d4explain itself
_LIBRARIES = (_TORCH, _OWN, str(Path(str(torch_geometric.__file__)).parent) + os.sep)


@dataclass(frozen=True)
class Value:
    """A tensor with one row per node, edge or graph, by its number."""

    number: int


class Index(Enum):
    """An input of the model that says which rows belong together."""

    EDGES = "edge_index"
    SOURCES = "edge_index[0]"
    TARGETS = "edge_index[1]"
    GRAPHS = "batch"


@dataclass(frozen=True)
class Stack:
    """Values that torch.stack put along a new dimension."""

    numbers: Inputs
    dim: int


Symbol: TypeAlias = Value | Index | Stack


@dataclass
class Operation:
    """One recorded layer; `layer` is None if the vocabulary has none."""

    layer: Layer | None
    inputs: Inputs
    label: str  # the module or function
    place: str  # file and line in the user's code, "" if there is none
    width: int
    rows: Rows
    result: Tensor | None  # None if the original does not compute this value
    tensors: dict[str, Tensor] = field(default_factory=dict)
    final_activation: FinalActivation | None = None
    problem: str | None = None

    @property
    def where(self) -> str:
        return f"{self.place}: {self.label}" if self.place else self.label


class Recorder:
    """The operations of one run, and what is known about each tensor of it."""

    def __init__(self, entry: CodeType) -> None:
        self.operations: list[Operation] = []
        self._entry = entry  # the function that runs the model; frames outside it are ours
        self._symbols: dict[int, tuple[Tensor, Symbol]] = {}  # keeps tensors, so ids stay theirs
        self._starts: dict[int, Tensor] = {}
        self.inside_layer = 0  # depth of modules that are recorded as one layer
        self.node_counts: set[int] = set()  # values that hold the number of nodes of each graph
        self.python_reads: list[str] = []  # where Python reads a number that depends on the graph

    def start(self, features: Tensor, edge_attributes: Tensor | None) -> None:
        self._starts = {FEATURES: features}
        if edge_attributes is not None:
            self._starts[EDGE_ATTRIBUTES] = edge_attributes
        for number, tensor in self._starts.items():
            self.bind(tensor, Value(number))

    def bind(self, tensor: Tensor, symbol: Symbol) -> None:
        self._symbols[id(tensor)] = (tensor, symbol)

    def symbol(self, value: object) -> Symbol | None:
        known = self._symbols.get(id(value)) if isinstance(value, Tensor) else None
        return None if known is None else known[1]

    def number(self, value: object) -> int | None:
        symbol = self.symbol(value)
        return symbol.number if isinstance(symbol, Value) else None

    def width(self, number: int) -> int:
        if number > 0:
            return self.operations[number - 1].width
        tensor = self._starts[number]
        return tensor.shape[1] if tensor.dim() > 1 else 1

    def rows(self, number: int) -> Rows:
        if number > 0:
            return self.operations[number - 1].rows
        return "node" if number == FEATURES else "edge"

    def layer_of(self, number: int) -> Layer | None:
        return self.operations[number - 1].layer if number > 0 else None

    def emit(
        self,
        layer: Layer,
        inputs: Sequence[int],
        result: Tensor | None,
        label: str,
        tensors: dict[str, Tensor] | None = None,
    ) -> int:
        """Records a layer and the tensor that it returned; returns the number of the value."""
        read = tuple(inputs)
        width = output_width(layer, [self.width(number) for number in read])
        operation = Operation(
            layer, read, label, self.place(), width,
            rows_after(role_of(layer), [self.rows(number) for number in read]),
            None if result is None else result.detach().clone(), tensors or {},
        )  # fmt: skip
        return self._add(operation, result)

    def emit_final(self, kind: FinalActivation, number: int, result: Tensor, label: str) -> None:
        operation = Operation(
            None, (number,), label, self.place(), self.width(number), self.rows(number),
            result.detach().clone(), final_activation=kind,
        )  # fmt: skip
        self._add(operation, result)

    def refuse(self, problem: str, arguments: object, result: object, label: str) -> None:
        """Marks results that the vocabulary cannot express; it matters if the output needs them."""
        read = tuple(dict.fromkeys(self._numbers(arguments)))
        for tensor in tensors_in(result):
            width = tensor.shape[-1] if tensor.dim() > 1 else 1
            rows = self.rows(read[0]) if read else "node"
            operation = Operation(
                None, read, label, self.place(), width, rows, tensor.detach().clone(),
                problem=problem,
            )  # fmt: skip
            self._add(operation, tensor)

    def read_by_python(self, arguments: object, name: str, *, decides: bool) -> None:
        """Notes a number that the user's Python code takes out of tensors.

        Numbers of `batch` and `edge_index` alone are sizes, such as the number of graphs. Python
        may read them, but not decide by them.
        """
        known = [one for one in tensors_in(arguments) if self.symbol(one) is not None]
        if self._called_by_pyg() or not (decides or any(map(self._depends_on_values, known))):
            return
        action = "decides by a value" if decides else "takes a number out of a value"
        self.python_reads.append(
            f"{self.place()}: {name}: Python {action} that depends on the graph, so other graphs "
            "may take other steps; compute with tensors instead. If this is only a check or a "
            "message, remove it from forward"
        )

    def _depends_on_values(self, tensor: Tensor) -> bool:
        """Whether a known tensor depends on the features or edge attributes, or on degrees."""
        pending, seen = list(self._numbers(tensor)), set()
        while pending:
            number = pending.pop()
            if number <= 0:
                return True
            if number not in seen:
                seen.add(number)
                pending += self.operations[number - 1].inputs
        return False

    @staticmethod
    def _called_by_pyg() -> bool:
        """Whether the tensor function that is running was called by code of PyG."""
        frame = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename.startswith((_TORCH, _OWN)):
            frame = frame.f_back  # type: ignore[assignment]
        return frame is not None and is_library(frame.f_code.co_filename)

    def constant(self, row: Tensor, label: str) -> int:
        """A row of numbers that is the same for all nodes, edges and graphs."""
        layer = ConstantLayer(row.numel())
        return self.emit(layer, (), row, label, {"value": row.flatten()})

    def is_known(self, arguments: object) -> bool:
        """Whether any tensor among the arguments depends on the graphs."""
        return any(self.symbol(tensor) is not None for tensor in tensors_in(arguments))

    def place(self) -> str:
        """File and line in the user's code that is running."""
        frame = sys._getframe(1)
        while frame is not None and frame.f_code is not self._entry:
            name = frame.f_code.co_filename
            if not is_library(name):
                return f"{short_path(name)}:{frame.f_lineno}"
            frame = frame.f_back  # type: ignore[assignment]
        return ""

    def _add(self, operation: Operation, result: Tensor | None) -> int:
        self.operations.append(operation)
        number = len(self.operations)
        if result is not None:
            self.bind(result, Value(number))
        return number

    def _numbers(self, arguments: object) -> Iterator[int]:
        for tensor in tensors_in(arguments):
            match self.symbol(tensor):
                case Value(number):
                    yield number
                case Stack(numbers):
                    yield from numbers
                case _:
                    pass


def tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors in nested lists, tuples and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors_in(one)


def is_library(filename: str) -> bool:
    """Whether code of PyTorch, PyG or d4explain; PyG writes code to temporary files."""
    generated = Path(filename).name.startswith("torch_geometric.")
    return generated or filename.startswith((*_LIBRARIES, "<"))


def short_path(filename: str) -> str:
    """The path relative to the current folder if it is inside it."""
    path, here = Path(filename), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else filename


def module_label(model: nn.Module, path: str, module: nn.Module) -> str:
    """`layer 2 (ReLU)` for the steps of a sequential model, otherwise `convs.0 (GCNConv)`."""
    first, _, rest = path.partition(".")
    if not path:
        first = "model"
    elif isinstance(model, nn.Sequential | Sequential):
        first = f"layer {first.removeprefix('module_')}"
    return (
        f"{first}.{rest} ({type(module).__name__})"
        if rest
        else f"{first} ({type(module).__name__})"
    )
