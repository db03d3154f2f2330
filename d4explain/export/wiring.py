"""Converts the data flow of a PyG Sequential to a chain, in which each layer takes the last output.

Additions and jumping knowledge use earlier outputs; a "keep" marks where those are made.
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
from d4explain.export.layers import Jump, translate
from d4explain.export.submodules import BASIC_GNNS, Part, Placed, flat
from d4explain.export.translation import InexpressibleError, Needs

Joining = Literal["list", "add", "cat", "max"]


@dataclass(frozen=True)
class Inputs:
    """The names of the inputs of a PyG Sequential."""

    values: str
    edges: str | None
    attributes: str | None
    batch: str | None


@dataclass(frozen=True)
class _Link:
    """One part of the chain, and the earlier values that it also takes."""

    place: str
    part: Part
    joins: tuple[int, ...] = ()


def unwired(model: Sequential) -> tuple[list[Placed], Inputs]:
    """The chain, with a `keep` for each value that is used again, and the input names."""
    wires = _Wires(set(model.signature.param_dict), model._children[0].param_names[0])
    for position, child in enumerate(model._children):
        wires.follow(f"layer {position}", getattr(model, child.name), child)
    return _with_keeps(wires.chain), wires.inputs()


class _Wires:
    """Follows names through a Sequential; values are numbered in the order of creation."""

    def __init__(self, names: set[str], values: str) -> None:
        self.chain: list[_Link] = []  # the first makes value 1, the next value 2, …
        self._names = names
        self._values = values
        self._beside: dict[Needs, str] = {}
        self._numbers: dict[str, int | tuple[int, ...]] = {values: 0}
        self._clear = True  # unknown layers are named by their translation, not here

    def inputs(self) -> Inputs:
        inputs = Inputs(
            self._values,
            edges=self._beside.get("edges"),
            attributes=self._beside.get("attributes"),
            batch=self._beside.get("batch"),
        )
        known = {inputs.values, inputs.edges, inputs.attributes, inputs.batch}
        unknown = self._names - known
        if unknown and self._clear:
            raise CommandError(f"the input {', '.join(sorted(unknown))} cannot be expressed")
        return inputs

    def follow(self, layer: str, part: Part, child: Child) -> None:
        place = f"{layer} takes ({', '.join(child.param_names)})"
        if len(child.return_names) != 1:
            raise CommandError(f"{place}; only a chain of layers can be expressed")
        gives = child.return_names[0]
        takes = [self._numbers.get(name) for name in child.param_names]
        numbers = tuple(number for number in takes if isinstance(number, int))
        several = len(numbers) == len(takes) > 1
        meaning = _meaning(part, len(numbers)) if several and callable(part) else None
        if meaning == "list":
            self._numbers[gives] = numbers
            return
        if meaning == "add":
            link = self._addition(place, layer, numbers)
        elif meaning is not None:
            link = _Link(layer, JumpingKnowledge(meaning), numbers)
        elif several:
            raise CommandError(f"{place}; of several values only sum, cat and max can be expressed")
        elif isinstance(takes[0], tuple):
            link = _Link(layer, part, takes[0])
        else:
            self._require_chain(place, takes[0])
            self._note_inputs(place, part, child.param_names[1:])
            link = _Link(layer, part)
        self.chain.append(link)
        self._numbers[gives] = len(self.chain)

    def _addition(self, place: str, layer: str, numbers: tuple[int, ...]) -> _Link:
        others = tuple(number for number in numbers if number != len(self.chain))
        if len(others) != 1:
            raise CommandError(f"{place}; one of the two must be what the layer before gives")
        return _Link(layer, "add", others)

    def _require_chain(self, place: str, number: int | None) -> None:
        last = len(self.chain)
        if number != last:
            before = next(name for name, made in self._numbers.items() if made == last)
            raise CommandError(f"{place}, but the layer before gives {before}; only a chain can be")

    def _note_inputs(self, place: str, part: Part, names: list[str]) -> None:
        """Edges, attributes and batch must be inputs of the model, in this order."""
        needs = needs_of(part)
        if needs is None:
            self._clear = False
            return
        # PyG's own models may be called without the batch, which only norms use.
        fewest = 1 if type(part) in BASIC_GNNS else len(needs)
        if not fewest <= len(names) <= len(needs):
            raise CommandError(f"{place}; only a chain of layers can be expressed")
        for need, name in zip(needs, names, strict=False):
            if self._beside.setdefault(need, name) != name or name not in self._names:
                raise CommandError(f"{place}; {name} must be an input of the model")


def _meaning(function: Callable[..., Any], count: int) -> Joining | None:
    """What a function of several values does, found by calling it on random values."""
    generator = torch.Generator().manual_seed(0)
    values = [torch.randn(3, 2, generator=generator) for _ in range(count)]
    try:
        result = function(*values)
    except Exception:
        return None  # reported later as an unknown layer
    if isinstance(result, list | tuple):
        same = len(result) == count and all(a is b for a, b in zip(result, values, strict=True))
        return "list" if same else None
    candidates: dict[Joining, Tensor] = {
        "cat": torch.cat(values, dim=1),
        "max": torch.stack(values).amax(dim=0),
    }
    if count == 2:
        candidates["add"] = values[0] + values[1]
    for meaning, wanted in candidates.items():
        if isinstance(result, Tensor) and torch.equal(result, wanted):
            return meaning
    return None


def needs_of(part: Part) -> list[Needs] | None:
    """The inputs of a part in addition to the values; None if the part is unknown."""
    try:
        found = {translate(inner).needs for _, inner in flat("", part)}
    except InexpressibleError:
        return None
    if "attributes" in found:
        found.add("edges")
    order: tuple[Needs, ...] = ("edges", "attributes", "batch")
    return [need for need in order if need in found]


def _with_keeps(chain: list[_Link]) -> list[Placed]:
    again = {number for link in chain for number in link.joins}
    kept: list[int] = []
    result: list[Placed] = []
    for number, link in enumerate(chain):
        if number in again:
            kept.append(number)
            result.append((link.place, "keep"))
        if link.part == "add" and link.joins[0] != kept[-1]:
            raise CommandError(
                f"{link.place} adds a value that is not the last one taken again; "
                "only the last can be expressed"
            )
        part, joins = link.part, list(link.joins)
        if part != "add" and joins and joins != kept[-len(joins) :]:
            raise CommandError(
                f"{link.place} joins some of the values that are taken again; "
                "only all of them, or the last ones, in their order can be expressed"
            )
        if isinstance(part, JumpingKnowledge) and joins != kept:
            part = Jump(part, len(joins))
        result.append((link.place, part))
    return result
