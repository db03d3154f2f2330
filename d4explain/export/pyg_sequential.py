"""Converts the data flow of a PyG Sequential to a chain, where each part takes the last output.

Sums and jumping knowledge also take earlier values. A "keep" in the chain stores such a value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.nn import JumpingKnowledge, Sequential
from torch_geometric.nn.sequential import Child

from d4explain.errors import CommandError
from d4explain.export.layers import Jump
from d4explain.export.submodules import BASIC_GNNS, LabelledPart, Part, required_inputs
from d4explain.export.translation import GraphInput

Combination = Literal["list", "add", "cat", "max"]  # of several values


@dataclass(frozen=True)
class InputNames:
    """The names that a PyG Sequential gives its inputs."""

    x: str
    edge_index: str | None
    edge_attr: str | None
    batch: str | None


@dataclass(frozen=True)
class _ChainStep:
    """One part of the chain, and the numbers of the earlier values that it also takes."""

    label: str
    part: Part
    earlier: tuple[int, ...] = ()


def sequential_to_chain(model: Sequential) -> tuple[list[LabelledPart], InputNames]:
    """The parts in order, with a "keep" for each value that is used again, and the input names."""
    flow = _DataFlow(set(model.signature.param_dict), model._children[0].param_names[0])
    for position, child in enumerate(model._children):
        flow.add(f"layer {position}", getattr(model, child.name), child)
    return _with_keeps(flow.steps), flow.input_names()


class _DataFlow:
    """Tracks the value behind each name; value 0 is x, value n the output of step n - 1."""

    def __init__(self, inputs: set[str], x: str) -> None:
        self.steps: list[_ChainStep] = []
        self._inputs = inputs
        self._x = x
        self._graph_inputs: dict[GraphInput, str] = {}
        self._values: dict[str, int | tuple[int, ...]] = {x: 0}  # a tuple is a list of values
        self._all_supported = True

    def input_names(self) -> InputNames:
        unread = self._inputs - {self._x, *self._graph_inputs.values()}
        # The translation reports unsupported layers; they may read the other inputs.
        if unread and self._all_supported:
            raise CommandError(
                f"no layer reads the input {', '.join(sorted(unread))}; "
                "export supports node features, edge_index, edge_attr and batch"
            )
        return InputNames(
            self._x,
            edge_index=self._graph_inputs.get("edge_index"),
            edge_attr=self._graph_inputs.get("edge_attr"),
            batch=self._graph_inputs.get("batch"),
        )

    def add(self, label: str, part: Part, child: Child) -> None:
        call = f"{label} takes ({', '.join(child.param_names)})"
        if len(child.return_names) != 1:
            raise CommandError(
                f"{call} and returns {len(child.return_names)} values; it must return one"
            )
        output = child.return_names[0]
        arguments = [self._values.get(name) for name in child.param_names]
        values = tuple(value for value in arguments if isinstance(value, int))
        takes_several = len(values) == len(arguments) > 1
        combination = _combination(part, len(values)) if takes_several and callable(part) else None
        if combination == "list":
            self._values[output] = values
            return
        if combination == "add":
            step = self._addition(call, label, values)
        elif combination is not None:
            step = _ChainStep(label, JumpingKnowledge(combination), values)
        elif takes_several:
            raise CommandError(f"{call}; export combines values only by sum, cat or max")
        elif isinstance(arguments[0], tuple):
            step = _ChainStep(label, part, arguments[0])
        else:
            self._require_last_value(call, arguments[0])
            self._record_graph_inputs(call, part, child.param_names[1:])
            step = _ChainStep(label, part)
        self.steps.append(step)
        self._values[output] = len(self.steps)

    def _addition(self, call: str, label: str, values: tuple[int, ...]) -> _ChainStep:
        earlier = tuple(value for value in values if value != len(self.steps))
        if len(earlier) != 1:
            raise CommandError(f"{call}; one of the two must be the output of the previous layer")
        return _ChainStep(label, "add", earlier)

    def _require_last_value(self, call: str, value: int | None) -> None:
        last = len(self.steps)
        if value != last:
            output = next(name for name, number in self._values.items() if number == last)
            raise CommandError(
                f"{call}, but the previous layer returns {output}; "
                "each layer must take the output of the previous one"
            )

    def _record_graph_inputs(self, call: str, part: Part, names: list[str]) -> None:
        """Edges, edge attributes and batch must be inputs of the model, in this order."""
        required = required_inputs(part)
        if required is None:
            self._all_supported = False
            return
        # PyG's own models may be called without the batch, which only norms use.
        fewest = 1 if type(part) in BASIC_GNNS else len(required)
        if not fewest <= len(names) <= len(required):
            raise CommandError(f"{call}; expected node values{''.join(f', {r}' for r in required)}")
        for graph_input, name in zip(required, names, strict=False):
            known = self._graph_inputs.setdefault(graph_input, name)
            if known != name or name not in self._inputs:
                raise CommandError(f"{call}; {name} must be the model's input for {graph_input}")


def _combination(function: Callable[..., Any], count: int) -> Combination | None:
    """How a function combines several values, found by calling it on random values."""
    generator = torch.Generator().manual_seed(0)
    values = [torch.randn(3, 2, generator=generator) for _ in range(count)]
    try:
        result = function(*values)
    except Exception:
        return None  # reported later as an unsupported layer
    if isinstance(result, list | tuple):
        same = len(result) == count and all(a is b for a, b in zip(result, values, strict=True))
        return "list" if same else None
    candidates: dict[Combination, Tensor] = {
        "cat": torch.cat(values, dim=1),
        "max": torch.stack(values).amax(dim=0),
    }
    if count == 2:
        candidates["add"] = values[0] + values[1]
    for combination, expected in candidates.items():
        if isinstance(result, Tensor) and torch.equal(result, expected):
            return combination
    return None


def _with_keeps(steps: list[_ChainStep]) -> list[LabelledPart]:
    """The parts of the steps, with a "keep" before the step that follows a reused value."""
    reused = {value for step in steps for value in step.earlier}
    kept: list[int] = []
    parts: list[LabelledPart] = []
    for value, step in enumerate(steps):
        if value in reused:
            kept.append(value)
            parts.append((step.label, "keep"))
        part, earlier = step.part, list(step.earlier)
        if part == "add" and earlier[0] != kept[-1]:
            raise CommandError(
                f"{step.label} adds a reused value that is not the latest; "
                "export supports only the latest"
            )
        if part != "add" and earlier and earlier != kept[-len(earlier) :]:
            raise CommandError(
                f"{step.label} combines some of the reused values; "
                "export supports all of them or the latest ones, in order"
            )
        if isinstance(part, JumpingKnowledge) and earlier != kept:
            part = Jump(part, len(earlier))
        parts.append((step.label, part))
    return parts
