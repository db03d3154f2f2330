"""Node types: what kind of node a feature row describes, such as the element of an atom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import torch
import torch.nn.functional as F
from torch import Tensor

from d4explain.gnn.graphs import Graph

_MAX_COLUMNS = 512  # more columns are words or measurements, not a one-hot code
_NODES_PER_ROW = 50  # distinct rows are types if they repeat at least this often on average
_SAMPLED_ROWS = 32  # nodes that reject most runs of columns before all nodes are compared
_NODES_AT_ONCE = 256  # nodes whose rows are compared with all types together


class TypeSource(Enum):
    """Where node types come from."""

    ONE_HOT = "one_hot"  # a group of columns of which exactly one is 1
    ROWS = "rows"  # few distinct feature rows
    NONE = "none"  # features are measurements, or equal for all nodes


@dataclass(frozen=True)
class NodeTypes:
    """Maps feature rows to types 0, 1, …; `unknown` is the type of rows that were never seen."""

    source: TypeSource
    columns: tuple[int, int]  # first and one past the last of the one-hot group
    rows: Tensor  # [type, feature] the distinct rows, if they are the types

    @staticmethod
    def of(graphs: Sequence[Graph]) -> NodeTypes:
        values = torch.cat([graph.features for graph in graphs])
        no_rows = values.new_empty(0, values.shape[1])
        group = _one_hot_group(values)
        if group is not None:
            return NodeTypes(TypeSource.ONE_HOT, group, no_rows)
        rows = torch.unique(values, dim=0)
        if 1 < len(rows) <= len(values) / _NODES_PER_ROW:
            return NodeTypes(TypeSource.ROWS, (0, 0), rows)
        return NodeTypes(TypeSource.NONE, (0, 0), no_rows)

    @property
    def count(self) -> int:
        """Number of types, with the one for unknown rows."""
        match self.source:
            case TypeSource.ONE_HOT:
                return self.columns[1] - self.columns[0] + 1
            case TypeSource.ROWS:
                return len(self.rows) + 1
            case TypeSource.NONE:
                return 1

    @property
    def unknown(self) -> int:
        return self.count - 1

    def ignores_features(self, graph: Graph) -> bool:
        """Whether some features are not part of the type."""
        match self.source:
            case TypeSource.ONE_HOT:
                return self.columns[1] - self.columns[0] < graph.features.shape[1]
            case TypeSource.ROWS:
                return False
            case TypeSource.NONE:
                return bool((graph.features != graph.features[:1]).any())

    def types(self, features: Tensor) -> Tensor:
        """The type of each row of [node, feature]: [node] int64."""
        match self.source:
            case TypeSource.ONE_HOT:
                first, end = self.columns
                group = features[:, first:end]
                is_code = ((group == 0) | (group == 1)).all(dim=1) & (group.sum(dim=1) == 1)
                return torch.where(is_code, group.argmax(dim=1), self.unknown)
            case TypeSource.ROWS:
                return torch.cat(
                    [self._row_types(some) for some in torch.split(features, _NODES_AT_ONCE)]
                )
            case TypeSource.NONE:
                return torch.zeros(len(features), dtype=torch.long, device=features.device)

    def _row_types(self, features: Tensor) -> Tensor:
        same = (features[:, None, :] == self.rows[None, :, :]).all(dim=2)  # [node, row]
        return torch.where(same.any(dim=1), same.to(torch.uint8).argmax(dim=1), self.unknown)


def _one_hot_group(values: Tensor) -> tuple[int, int] | None:
    """The longest run of columns that is a one-hot code in every row; None if there is none."""
    width = values.shape[1]
    if not 2 <= width <= _MAX_COLUMNS:
        return None
    binary = ((values == 0) | (values == 1)).all(dim=0)  # [column]
    # Sums over a run are differences of cumulative sums. Measurements would make them inexact.
    sums = F.pad(torch.where(binary, values, 0).cumsum(dim=1), (1, 0))  # [row, width + 1]
    measured = F.pad((~binary).long().cumsum(dim=0), (1, 0))  # [width + 1]
    some = sums[:_SAMPLED_ROWS]
    is_code = (measured[None, :] == measured[:, None]) & (
        (some[:, None, :] - some[:, :, None] == 1).all(dim=0)
    )  # [first, end]
    runs: list[tuple[int, int]] = torch.triu(is_code, diagonal=2).nonzero().tolist()
    for first, end in sorted(runs, key=lambda run: (run[0] - run[1], run[0])):
        if bool((sums[:, end] - sums[:, first] == 1).all()):
            return first, end
    return None
