"""Short questions that the API asks a running worker; nothing about them is stored."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from d4explain.contracts.results import Document, NodeId, Prediction, ResultGraph


class CallKind(StrEnum):
    WHAT_IF = "what-if"
    NEAREST = "nearest"


class WhatIfCall(Document):
    """What does the GNN answer if these pairs of nodes are toggled in an explained graph?"""

    tenant: str
    gnn: str
    dataset: str
    answer_sha256: str
    graph: int
    toggles: list[tuple[NodeId, NodeId]]


class NearestCall(Document):
    """Which reference graph of a class is nearest to an explained graph?"""

    tenant: str
    gnn: str
    dataset: str
    answer_sha256: str
    graph: int
    target_class: int | None  # None: that of the best counterfactual


class CallFault(Document):
    """Why a call cannot be answered: a JSON pointer into the body, or a query parameter."""

    at: str
    detail: str


class WhatIf(Document):
    """The GNN's prediction for an explained graph with other edges."""

    prediction: Prediction
    edges: Annotated[int, Field(description="Edges of the graph after the changes.")]


class NearestGraph(Document):
    """A reference graph that the GNN gives the class."""

    position: int | None = Field(
        description="Position in the reference set, from 0; null if the GNN classifies nodes."
    )
    graph: ResultGraph = Field(description="With positions as node ids.")
    smiles: str | None = Field(None, description="If the graph was posted as SMILES.")
    node: int | None = Field(description="The node that has the class; null for whole graphs.")
    prediction: Prediction
    label: int | None = Field(description="Its label in the reference set; null if it has none.")


class Nearest(Document):
    """The reference graph of a class that is nearest to an explained graph."""

    target_class: int = Field(description="Number of the class that was looked for, from 0.")
    nearest: NearestGraph | None = Field(
        description="Null if the GNN gives no reference graph this class."
    )
    distance: float | None = Field(
        description="0 to 1: one minus the share of node neighbourhoods that both graphs have. A "
        "neighbourhood is a node with its type and those within `hops` of it; each is counted as "
        "often as it occurs, and those of 0 to `hops` hops count together."
    )
    hops: int = Field(description="Radius of the largest neighbourhoods that are compared.")
    compares_features: bool = Field(
        description="Whether nodes of different features differ. Not if the reference set has "
        "more than 100 different feature rows: then only the edges are compared."
    )
    compared_count: int = Field(description="Reference graphs of the class; all were compared.")


Answered = WhatIf | Nearest
