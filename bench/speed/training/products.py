"""Record and replay the matrix products of a computation, as a lower bound of its time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_ATEN = torch.ops.aten
_PRODUCTS = {_ATEN.mm, _ATEN.bmm}
_PRODUCTS_WITH_SUM = {_ATEN.addmm, _ATEN.addmm_, _ATEN.baddbmm, _ATEN.baddbmm_}
_UNSUPPORTED = {_ATEN.mv, _ATEN.addmv, _ATEN.dot, _ATEN.convolution}


@dataclass(frozen=True)
class Operand:
    """Shape, strides and type of a matrix or a batch of matrices."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    @staticmethod
    def of(tensor: Tensor) -> Operand:
        return Operand(tuple(tensor.shape), tensor.stride(), tensor.dtype)

    def filled(self) -> Tensor:
        tensor = torch.empty_strided(self.shape, self.strides, dtype=self.dtype)
        return tensor.normal_(generator=torch.Generator().manual_seed(0))


@dataclass(frozen=True)
class Product:
    left: Operand
    right: Operand

    @property
    def operations(self) -> int:
        """2·m·k·n per matrix: multiplications and additions."""
        *_, columns = self.right.shape
        count = 2 * columns
        for size in self.left.shape:
            count *= size
        return count


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, products: list[Product]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._products = products

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        packet = func.overloadpacket
        if packet in _PRODUCTS or packet in _PRODUCTS_WITH_SUM:
            left, right = args[1:3] if packet in _PRODUCTS_WITH_SUM else args[:2]
            self._products.append(Product(Operand.of(left), Operand.of(right)))
        elif packet in _UNSUPPORTED:
            raise NotImplementedError(f"Recording {packet} is not implemented.")
        return func(*args, **(kwargs or {}))


def products_of(computation: Callable[[], object]) -> list[Product]:
    """Record every matrix product of a call in order, including those of gradients."""
    products: list[Product] = []
    with _Recorder(products):
        computation()
    return products


class ProductReplay:
    """Replays the products into preallocated results.

    Operands with equal layout share one tensor, which favours the cache.
    """

    def __init__(self, products: Sequence[Product]) -> None:
        filled: dict[tuple[Operand, bool], Tensor] = {}
        results: dict[tuple[int, ...], Tensor] = {}
        self._calls: list[tuple[Callable[..., object], Tensor, Tensor, Tensor]] = []
        for product in products:
            left = filled.setdefault((product.left, True), product.left.filled())
            right = filled.setdefault((product.right, False), product.right.filled())
            shape = (*product.left.shape[:-1], product.right.shape[-1])
            result = results.setdefault(shape, left.new_empty(shape))
            self._calls.append((torch.mm if left.dim() == 2 else torch.bmm, left, right, result))

    def __call__(self) -> None:
        with torch.no_grad():
            for multiply, left, right, result in self._calls:
                multiply(left, right, out=result)
