"""Layers that take several values or none: kept values, arithmetic of values, constants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce

import torch
from torch import Tensor, nn

from d4explain.gnn.spec import (
    AddLayer,
    CombineLayer,
    CombineOp,
    ConstantLayer,
    JumpLayer,
    KeepLayer,
)


class Join(nn.Module, ABC):
    """A function of all inputs, row by row; it is the same in both forms."""

    @abstractmethod
    def joined(self, values: Sequence[Tensor]) -> Tensor:
        """Several […, width] → […, width]; a constant is [width]."""


class Keep(Join):
    """Passes its input on; later layers of a chain read it by its position."""

    def __init__(self, _width: int, _layer: KeepLayer) -> None:
        super().__init__()

    def joined(self, values: Sequence[Tensor]) -> Tensor:
        return values[0]


class Add(Join):
    """Adds the last kept values."""

    def __init__(self, _width: int, _layer: AddLayer) -> None:
        super().__init__()

    def joined(self, values: Sequence[Tensor]) -> Tensor:
        return values[0] + values[1]


class Jump(Join):
    """PyG's JumpingKnowledge over kept values."""

    def __init__(self, _width: int, layer: JumpLayer) -> None:
        super().__init__()
        self._mode = layer.mode

    def joined(self, values: Sequence[Tensor]) -> Tensor:
        if self._mode == "cat":
            return torch.cat(list(values), dim=-1)
        return torch.stack(list(values)).amax(dim=0)


_ARITHMETIC: dict[CombineOp, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "mean": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": torch.div,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
}


class Combine(Join):
    def __init__(self, _width: int, layer: CombineLayer) -> None:
        super().__init__()
        self.op: CombineOp = layer.op

    def joined(self, values: Sequence[Tensor]) -> Tensor:
        if self.op == "concat":
            rows = max((value.shape[:-1] for value in values), key=len)  # a constant has none
            return torch.cat([value.expand(*rows, value.shape[-1]) for value in values], dim=-1)
        result = reduce(_ARITHMETIC[self.op], values)
        return result / len(values) if self.op == "mean" else result


class Constant(Join):
    def __init__(self, _width: int, layer: ConstantLayer) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(layer.out))

    def joined(self, values: Sequence[Tensor]) -> Tensor:
        return self.value
