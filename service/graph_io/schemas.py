"""Strict models of the graph forms that the API reads; they also define its OpenAPI schema."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    SkipValidation,
    Tag,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

MAX_ID_LENGTH = 64
MAX_SAFE_INTEGER = 2**53 - 1  # JSON parsers of other languages round larger integers
MAX_FLOAT32 = 3.4028234663852886e38
MAX_LABEL = 9_999


def checked_node_id(value: Any) -> int | str:
    """A node id exactly as posted, so that answers contain the caller's own ids."""
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > MAX_SAFE_INTEGER:
            raise PydanticCustomError("node_id", "an integer id should be within ±(2^53 - 1)")
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("node_id", "a node id should be an integer or a string")
    if not 1 <= len(value) <= MAX_ID_LENGTH:
        raise PydanticCustomError(
            "node_id",
            "a node id should have 1 to {allowed} characters, but has {sent}",
            {"allowed": MAX_ID_LENGTH, "sent": len(value)},
        )
    # GraphML and SVG are XML, which cannot contain U+FFFE and U+FFFF.
    if any(
        unicodedata.category(character) in {"Cc", "Cf", "Cs"} or character in "\ufffe\uffff"
        for character in value
    ):
        raise PydanticCustomError("node_id", "a node id should have no control characters")
    if not unicodedata.is_normalized("NFC", value):
        raise PydanticCustomError("node_id", "a node id should be in Unicode normal form NFC")
    return value


NodeIdIn = Annotated[
    int | str,
    PlainValidator(checked_node_id),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": -MAX_SAFE_INTEGER, "maximum": MAX_SAFE_INTEGER},
                {"type": "string", "minLength": 1, "maxLength": MAX_ID_LENGTH},
            ]
        }
    ),
]
Feature = Annotated[float, Field(ge=-MAX_FLOAT32, le=MAX_FLOAT32)]
# A posted label may also be the name of a class; it is a number when this type validates it.
Label = Annotated[
    int,
    Field(ge=0, le=MAX_LABEL),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": MAX_LABEL},
                {"type": "string", "minLength": 1, "maxLength": 100},
            ]
        }
    ),
]


class _GraphPart(BaseModel):
    """Ignores unknown attributes, which `unread_attributes` refuses or notes."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, allow_inf_nan=False)


class NodeIn(_GraphPart):
    id: NodeIdIn
    x: list[Feature] | None = Field(None, description="Features, for all nodes or for none.")


class EdgeIn(_GraphPart):
    source: NodeIdIn
    target: NodeIdIn
    edge_attr: list[Feature] | None = Field(
        None, description="Attributes for GNNs with `edge_features`, for all edges or for none."
    )


class NodeLinkGraph(_GraphPart):
    """A graph as `networkx.node_link_data` writes it; `links`, an older name of `edges`, works too.

    Graphs are undirected: a–b and b–a are one edge. Self-loops and repeated pairs are rejected, as
    are unknown top-level keys and edge weights other than 1. Other unknown attributes of nodes and
    edges are left out and named in `warnings`.
    """

    model_config = ConfigDict(extra="forbid")

    nodes: Annotated[list[NodeIn], Field(min_length=1)]
    edges: list[EdgeIn] | None = None
    links: list[EdgeIn] | None = None
    label: Label | None = Field(None, description="Known class, for reference sets.")
    directed: Literal[False] = Field(False, description="Directed graphs are not supported.")
    multigraph: bool = Field(False, description="Accepted; parallel edges are rejected.")
    graph: Annotated[dict[str, Any], SkipValidation] | None = Field(None, description="Ignored.")
    name: str | None = Field(None, max_length=200, description="Ignored.")


class PygGraph(_GraphPart):
    """A PyG `Data` as plain lists; `edge_index` lists each edge once or in both directions.

    Node ids are 0 … n−1, or those in `node_ids`. Edge weights other than 1 are rejected; other
    attributes are left out and named in `warnings`.
    """

    edge_index: Annotated[list[list[int]], Field(min_length=2, max_length=2)]
    x: list[list[Feature]] | None = None
    edge_attr: list[list[Feature]] | None = Field(
        None, description="One row per entry of `edge_index`, for GNNs with `edge_features`."
    )
    num_nodes: Annotated[int, Field(ge=1)] | None = None
    node_ids: list[NodeIdIn] | None = Field(
        None, description="Ids of the nodes, in the order of `x`."
    )
    label: Label | None = None
    y: Label | Annotated[list[Label | None], Field(min_length=1)] | None = Field(
        None, description="PyG's name of `label`. Labels of all nodes are for samples only."
    )


class SmilesGraph(_GraphPart):
    """A molecule, for GNNs whose spec has a `featuriser`; atoms become nodes, bonds edges.

    Node ids are the atom-map numbers if there are any, otherwise 0, 1, … in the order of the text.
    """

    model_config = ConfigDict(extra="forbid")

    smiles: Annotated[str, Field(min_length=1, pattern=r"^[!-~]+$")]
    label: Label | None = None


def graph_form(value: Any) -> Literal["node-link", "pyg", "molecule"]:
    """The form of a posted graph, by the keys that only this form has."""
    if isinstance(value, PygGraph) or (isinstance(value, dict) and "edge_index" in value):
        return "pyg"
    if isinstance(value, SmilesGraph) or (
        isinstance(value, dict) and "smiles" in value and "nodes" not in value
    ):
        return "molecule"
    return "node-link"


GraphIn = Annotated[
    Annotated[NodeLinkGraph, Tag("node-link")]
    | Annotated[PygGraph, Tag("pyg")]
    | Annotated[SmilesGraph, Tag("molecule")],
    Discriminator(graph_form),
]
