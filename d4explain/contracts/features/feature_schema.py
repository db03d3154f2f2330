"""Names of the node feature columns of a GNN, and what the columns must hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from d4explain.contracts.errors import Fault
from d4explain.contracts.vocabulary.spec_model import SpecModel

Label = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]


class FeatureDocument(SpecModel):
    """One column; columns with the same `group` form a one-hot group."""

    name: Label
    group: Label | None = None


class FeatureSchemaDocument(SpecModel):
    """All feature columns, in order."""

    features: Annotated[list[FeatureDocument], Field(min_length=1)]


_WEIGH_EDGES = ("gcn", "appnp", "graph_conv")  # layers whose second input weighs edges


@dataclass(frozen=True)
class OneHotGroup:
    """Columns in which every node has exactly one 1; its other values there are 0."""

    name: str
    columns: tuple[int, ...]


@dataclass(frozen=True)
class EmbeddedColumn:
    """A column that the GNN embeds: whole numbers from 0 to count - 1."""

    column: int
    count: int


@dataclass(frozen=True)
class WeightColumn:
    """A column of edge attributes that weighs edges; a GCN takes roots of sums of weights."""

    column: int


ColumnRule: TypeAlias = OneHotGroup | EmbeddedColumn | WeightColumn


@dataclass(frozen=True)
class BrokenRow:
    row: int
    detail: str


def schema_faults(schema: FeatureSchemaDocument, features: int, place: str) -> list[Fault]:
    listed = schema.features
    if len(listed) != features:
        detail = f"describes {len(listed)} features; the GNN takes {features}"
        return [Fault(f"{place}/features", detail)]
    names = Counter(feature.name for feature in listed)
    faults = [
        Fault(f"{place}/features/{i}/name", f"{feature.name!r} is the name of several features")
        for i, feature in enumerate(listed)
        if names[feature.name] > 1
    ]
    faults += [
        Fault(
            f"{place}/features/{group.columns[0]}/group",
            f"the group {group.name!r} has one column; a one-hot group has at least two",
        )
        for group in groups_of(schema)
        if len(group.columns) == 1
    ]
    return faults


def groups_of(schema: FeatureSchemaDocument | None) -> tuple[OneHotGroup, ...]:
    columns: dict[str, list[int]] = {}
    for position, feature in enumerate(schema.features if schema else []):
        if feature.group is not None:
            columns.setdefault(feature.group, []).append(position)
    return tuple(OneHotGroup(name, tuple(positions)) for name, positions in columns.items())


def column_rules(spec: Mapping[str, Any]) -> tuple[ColumnRule, ...]:
    """What the feature columns must hold, by the schema and the embeddings of a stored spec."""
    schema = spec.get("feature_schema")
    groups = groups_of(None if schema is None else FeatureSchemaDocument.model_validate(schema))
    embedded = [
        EmbeddedColumn(layer.get("column", 0), layer["count"])
        for layer in spec["layers"]
        if layer["type"] == "embedding" and layer.get("inputs") != ["edge_attr"]
    ]
    return (*groups, *dict.fromkeys(embedded))


def edge_column_rules(spec: Mapping[str, Any]) -> tuple[ColumnRule, ...]:
    """What the columns of edge attributes must hold, by the layers of a stored spec.

    Weights that layers compute from the attributes are not known here.
    """
    single = {"edge_attr": 0} if spec.get("edge_features") == 1 else {}  # values of one column
    rules: list[ColumnRule] = []
    for layer in spec["layers"]:
        inputs = layer.get("inputs") or []
        if layer["type"] == "embedding" and inputs == ["edge_attr"]:
            rules.append(EmbeddedColumn(layer.get("column", 0), layer["count"]))
        elif layer["type"] == "columns" and inputs == ["edge_attr"] and layer.get("name"):
            if layer["stop"] - layer["start"] == 1:
                single[layer["name"]] = layer["start"]
        elif layer["type"] in _WEIGH_EDGES and single.keys() & inputs[1:]:
            rules.append(WeightColumn(single[inputs[1]]))
    return tuple(dict.fromkeys(rules))


def broken_rows(
    x: NDArray[np.floating],
    rules: tuple[ColumnRule, ...],  # x: [row, column]
) -> Iterator[BrokenRow]:
    """Every row of features or edge attributes that violates a rule, in order."""
    for rule in rules:
        if isinstance(rule, EmbeddedColumn):
            yield from _not_embedded(x[:, rule.column], rule)
            continue
        if isinstance(rule, WeightColumn):
            yield from _negative(x[:, rule.column], rule)
            continue
        values = x[:, rule.columns]
        valid = ((values == 0) | (values == 1)).all(axis=1) & (values.sum(axis=1) == 1)
        for row in np.flatnonzero(~valid):
            yield BrokenRow(int(row), _detail(rule, values[row]))


def _not_embedded(values: NDArray[np.floating], rule: EmbeddedColumn) -> Iterator[BrokenRow]:
    valid = (values == np.floor(values)) & (values >= 0) & (values < rule.count)
    for row in np.flatnonzero(~valid):
        allowed = f"whole numbers from 0 to {rule.count - 1}, which the GNN embeds"
        detail = f"column {rule.column} must hold {allowed}; it has {values[row]:.6g}"
        yield BrokenRow(int(row), detail)


def _negative(values: NDArray[np.floating], rule: WeightColumn) -> Iterator[BrokenRow]:
    for row in np.flatnonzero(values < 0):
        detail = f"column {rule.column} weighs edges in the GNN and must not be negative"
        yield BrokenRow(int(row), f"{detail}; it has {values[row]:.6g}")


def _detail(group: OneHotGroup, values: NDArray[np.floating]) -> str:
    others = values[(values != 0) & (values != 1)]
    ones = int((values == 1).sum())
    found = f"the value {others[0]:.6g}" if len(others) else f"{ones or 'no'} ones"
    span = f"columns {group.columns[0]} to {group.columns[-1]}"
    return (
        f"the one-hot group {group.name!r} ({span}) must have one 1 and otherwise 0; it has {found}"
    )
