"""Operations that make a graph of a GNN: they join values, choose columns and move rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias, get_args

from d4explain.gnn.vocabulary.choices import CombineOp
from d4explain.gnn.vocabulary.field_checks import require_one_of, require_positive


@dataclass(frozen=True)
class CombineLayer:
    """Joins its inputs row by row: `concat` puts columns side by side, the others are arithmetic.

    Arithmetic needs inputs of one width; an input of width 1 serves all columns.
    """

    op: CombineOp

    def __post_init__(self) -> None:
        require_one_of("combine: op", self.op, get_args(CombineOp))


@dataclass(frozen=True)
class AffineLayer:
    """scale · x + shift with two numbers."""

    scale: float = 1.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and math.isfinite(self.shift)):
            raise ValueError(
                f"affine: scale and shift must be finite; got {self.scale!r} and {self.shift!r}"
            )


@dataclass(frozen=True)
class ConstantLayer:
    """One trained row that is the same for all nodes, edges and graphs; it has no input."""

    out: int

    def __post_init__(self) -> None:
        require_positive("constant: out", self.out)


@dataclass(frozen=True)
class ColumnsLayer:
    """The columns from `start` to `stop`, without `stop`."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop:
            raise ValueError(
                f"columns: start must be from 0 to stop - 1; got {self.start!r} and {self.stop!r}"
            )


@dataclass(frozen=True)
class EmbeddingLayer:
    """torch.nn.Embedding of one column of the node features or edge attributes.

    The column holds whole numbers from 0 to count - 1.
    """

    count: int
    out: int
    column: int = 0

    def __post_init__(self) -> None:
        require_positive("embedding: count", self.count)
        require_positive("embedding: out", self.out)
        if self.column < 0:
            raise ValueError(f"embedding: column must not be negative; got {self.column!r}")


@dataclass(frozen=True)
class NormalizeLayer:
    """torch.nn.functional.normalize: divides each row by its Euclidean length."""


@dataclass(frozen=True)
class BroadcastLayer:
    """Gives each node the row of its graph."""


Operation: TypeAlias = (
    CombineLayer
    | AffineLayer
    | ConstantLayer
    | ColumnsLayer
    | EmbeddingLayer
    | NormalizeLayer
    | BroadcastLayer
)
