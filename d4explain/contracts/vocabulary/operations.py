"""Documents of the operations that make a graph of a GNN spec."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from d4explain.contracts.vocabulary.spec_model import LayerModel, Width

MAX_EMBEDDINGS = 65_536  # of one table
MAX_COLUMN = 65_536


class CombineDocument(LayerModel):
    """Joins its inputs row by row.

    `concat` puts their columns side by side. The others are arithmetic: the inputs have one width,
    and an input of width 1 serves all columns.
    """

    type: Literal["combine"]
    op: Literal["concat", "add", "subtract", "multiply", "divide", "maximum", "minimum", "mean"]


class AffineDocument(LayerModel):
    """scale · x + shift with two numbers."""

    type: Literal["affine"]
    scale: float = Field(1.0, strict=False)
    shift: float = Field(0.0, strict=False)


class ConstantDocument(LayerModel):
    """One trained row that is the same for all nodes, edges and graphs; it has no input."""

    type: Literal["constant"]
    out: Width


class ColumnsDocument(LayerModel):
    """The columns from `start` to `stop`, without `stop`."""

    type: Literal["columns"]
    start: Annotated[int, Field(ge=0, le=MAX_COLUMN)]
    stop: Annotated[int, Field(ge=1, le=MAX_COLUMN)]


class EmbeddingDocument(LayerModel):
    """torch.nn.Embedding of one column of the node features or edge attributes.

    The column holds whole numbers from 0 to count - 1.
    """

    type: Literal["embedding"]
    count: Annotated[int, Field(ge=1, le=MAX_EMBEDDINGS)]
    out: Width
    column: Annotated[int, Field(ge=0, lt=MAX_COLUMN)] = 0


class NormalizeDocument(LayerModel):
    """torch.nn.functional.normalize: divides each row by its Euclidean length."""

    type: Literal["normalize"]


class BroadcastDocument(LayerModel):
    """Gives each node the row of its graph."""

    type: Literal["broadcast"]
