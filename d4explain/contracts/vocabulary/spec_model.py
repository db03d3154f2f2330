"""Base classes of the documents of a GNN spec."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

MAX_WIDTH = 1024

Width = Annotated[int, Field(ge=1, le=MAX_WIDTH)]


class SpecModel(BaseModel):
    """Base class of all parts of a spec; it rejects unknown fields and wrong types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


# Names of the values that a GNN starts from; a layer may read them by these names.
INPUT_NAMES = ("x", "edge_attr")
ValueName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z_][\w.\[\]]*$")]


class LayerModel(SpecModel):
    """Base class of all layers; a layer without `inputs` reads the layer before it.

    Both fields are omitted if None, so that the hashes of older GNNs stay valid.
    """

    name: ValueName | None = Field(
        None,
        description="Name of the layer's output, by which later layers read it.",
        exclude_if=lambda name: name is None,
    )
    inputs: Annotated[list[ValueName], Field(min_length=1, max_length=64)] | None = Field(
        None,
        description="Names of the values that the layer reads: `x` for the node features, "
        "`edge_attr` for the edge attributes, or names of earlier layers; the default is the "
        "output of the layer before.",
        exclude_if=lambda inputs: inputs is None,
    )
