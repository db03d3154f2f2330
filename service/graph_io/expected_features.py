"""The features that posted nodes and edges must have."""

from __future__ import annotations

from dataclasses import dataclass

from d4explain.contracts.features.feature_schema import ColumnRule
from d4explain.contracts.features.featurisers import SmilesFeaturiser


@dataclass(frozen=True)
class ExpectedEdgeAttributes:
    """How many attributes each edge must have, and where that number comes from."""

    size: int
    source: str  # for messages: "the GNN gnn_… takes"

    @property
    def requirement(self) -> str:
        return f"{self.source} {self.size or 'none'}"


@dataclass(frozen=True)
class ExpectedFeatures:
    """How many features each node must have, and where that number comes from."""

    size: int
    source: str  # for messages: "the GNN gnn_…"
    column_rules: tuple[ColumnRule, ...] = ()
    featuriser: SmilesFeaturiser | None = None  # for graphs posted as SMILES
    edges: ExpectedEdgeAttributes | None = None  # None until a graph with edges was read
