"""Names that a GNN's spec gives to classes and to types of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from d4explain.contracts.features.feature_schema import FeatureSchemaDocument, groups_of
from d4explain.contracts.features.featurisers import featuriser_of


@dataclass(frozen=True)
class GnnNames:
    """Names of classes and of node types; a node's type is the 1 among its one-hot columns."""

    class_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    type_columns: tuple[int, ...] | None = None  # None: all columns, if they are one-hot

    def class_name(self, number: int) -> str | None:
        names = self.class_names or ()
        return names[number] if number < len(names) else None

    def node_type(self, x: Sequence[float]) -> int | None:
        """The column of the node's type; None if its features are not one-hot."""
        columns = range(len(x)) if self.type_columns is None else self.type_columns
        ones = [column for column in columns if x[column] == 1]
        zeros = sum(x[column] == 0 for column in columns)
        is_one_hot = len(columns) > 1 and len(ones) == 1 and zeros == len(columns) - 1
        return ones[0] if is_one_hot else None

    def type_name(self, x: Sequence[float]) -> str | None:
        """The name of the node's type; None if it has no type or the type no name."""
        column = self.node_type(x)
        if column is None or self.feature_names is None:
            return None
        return self.feature_names[column]


def gnn_names(spec: Mapping[str, Any]) -> GnnNames:
    """The names in a stored spec; the elements of a featuriser are names of columns, too."""
    classes = spec.get("class_names")
    feature_names: tuple[str, ...] | None = None
    type_columns: tuple[int, ...] | None = None
    if spec.get("feature_schema") is not None:
        schema = FeatureSchemaDocument.model_validate(spec["feature_schema"])
        feature_names = tuple(feature.name for feature in schema.features)
        groups = groups_of(schema)
        type_columns = groups[0].columns if groups else None
    else:
        featuriser = featuriser_of(spec)
        if featuriser is not None:
            feature_names = (*featuriser.atoms, *(["other"] if featuriser.other else []))
    return GnnNames(
        class_names=None if classes is None else tuple(classes),
        feature_names=feature_names,
        type_columns=type_columns,
    )
