"""The features that posted nodes and edges must have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from d4explain.contracts.features.feature_schema import ColumnRule
from d4explain.contracts.features.featurisers import SmilesFeaturiser
from service.http.faults import shown


@dataclass(frozen=True)
class ExpectedEdgeAttributes:
    """How many attributes each edge must have, and where that number comes from."""

    size: int
    source: str  # for messages: "the GNN gnn_… takes"
    column_rules: tuple[ColumnRule, ...] = ()
    is_of_set: bool = False  # the graphs of a set must agree; a GNN that reads none ignores some

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
    class_names: tuple[str, ...] = ()  # for labels that are names


def class_number(label: object, class_names: Sequence[str]) -> object:
    """The number of a class given by its name; other labels stay, to be validated as numbers."""
    if isinstance(label, str) and class_names.count(label) == 1:
        return class_names.index(label)
    return label


def unknown_class(label: object, class_names: Sequence[str]) -> str | None:
    """Why a label that is a text is not the name of one class."""
    if not isinstance(label, str) or class_names.count(label) == 1:
        return None
    listed = ", ".join(shown(name) for name in class_names[:20])
    return f"is {shown(label)}; the classes are 0 to {len(class_names) - 1} ({listed})"


def with_class_numbers(graph: dict[str, object], class_names: Sequence[str]) -> dict[str, object]:
    """A posted graph whose labels are numbers where they were names of classes."""
    changed = dict(graph)
    for key in ("label", "y"):
        label = graph.get(key)
        if isinstance(label, list):
            changed[key] = [class_number(item, class_names) for item in label]
        elif isinstance(label, str):
            changed[key] = class_number(label, class_names)
    return changed
