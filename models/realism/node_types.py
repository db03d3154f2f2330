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
_FIXED_DEGREES = 0.95  # share of the nodes with the usual degree of their row
_NODES_AT_ONCE = 256  # nodes whose rows are compared with all types together


class TypeSource(Enum):
    """Where node types come from."""

    ONE_HOT = "one_hot"  # a group of columns of which exactly one is 1
    ROWS = "rows"  # few distinct feature rows, or values of one column
    NONE = "none"  # features are measurements, or equal for all nodes


@dataclass(frozen=True)
class NodeTypes:
    """Maps feature rows to types 0, 1, …; `unknown` is the type of rows that were never seen."""

    source: TypeSource
    columns: tuple[int, int]  # first and one past the last that the type depends on
    rows: Tensor  # [type, column] the distinct rows of these columns, if they are the types

    @staticmethod
    def of(graphs: Sequence[Graph], *, free_of_degree: bool = False) -> NodeTypes:
        """`free_of_degree`: rows that fix the degrees of their nodes do not count as types.

        Features of molecules often hold each atom's bonds and hydrogens. No edit would keep such a
        row to what it says. The types are instead those of one column, the element: of the columns
        that do not fix the degree, the one with most values. Without such a column rows stay types.
        """
        values = torch.cat([graph.features for graph in graphs])
        no_rows = values.new_empty(0, values.shape[1])
        group = _one_hot_group(values)
        if group is not None:
            return NodeTypes(TypeSource.ONE_HOT, group, no_rows)
        rows, row_of = torch.unique(values, dim=0, return_inverse=True)
        if not 1 < len(rows) <= len(values) / _NODES_PER_ROW:
            return NodeTypes(TypeSource.NONE, (0, 0), no_rows)
        whole = NodeTypes(TypeSource.ROWS, (0, values.shape[1]), rows)
        if not free_of_degree or not _fix_degrees(row_of, graphs):
            return whole
        best: NodeTypes | None = None
        for column in range(values.shape[1]):
            part = (column, column + 1)
            distinct, value_of = torch.unique(rows[:, slice(*part)], dim=0, return_inverse=True)
            most = 1 if best is None else len(best.rows)
            if len(distinct) > most and not _fix_degrees(value_of[row_of], graphs):
                best = NodeTypes(TypeSource.ROWS, part, distinct)
        return best or whole

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
            case TypeSource.ONE_HOT | TypeSource.ROWS:
                return self.columns[1] - self.columns[0] < graph.features.shape[1]
            case TypeSource.NONE:
                return bool((graph.features != graph.features[:1]).any())

    def types(self, features: Tensor) -> Tensor:
        """The type of each row of [node, feature]: [node] int64."""
        group = features[:, slice(*self.columns)]
        match self.source:
            case TypeSource.ONE_HOT:
                is_code = ((group == 0) | (group == 1)).all(dim=1) & (group.sum(dim=1) == 1)
                return torch.where(is_code, group.argmax(dim=1), self.unknown)
            case TypeSource.ROWS:
                return torch.cat(
                    [self._row_types(some) for some in torch.split(group, _NODES_AT_ONCE)]
                )
            case TypeSource.NONE:
                return torch.zeros(len(features), dtype=torch.long, device=features.device)

    def _row_types(self, features: Tensor) -> Tensor:
        same = (features[:, None, :] == self.rows[None, :, :]).all(dim=2)  # [node, row]
        return torch.where(same.any(dim=1), same.to(torch.uint8).argmax(dim=1), self.unknown)


def _fix_degrees(row_of: Tensor, graphs: Sequence[Graph]) -> bool:
    """Whether nearly all nodes have the usual degree of their row; `row_of` is [node]."""
    degree = torch.cat(
        [torch.bincount(graph.edges.flatten(), minlength=graph.node_count) for graph in graphs]
    )
    both = torch.stack([row_of, degree])
    (kinds, _), counts = torch.unique(both, dim=1, return_counts=True)
    usual = torch.zeros(int(row_of.max()) + 1, dtype=counts.dtype)
    usual.scatter_reduce_(0, kinds, counts, "amax")
    return int(usual.sum()) >= _FIXED_DEGREES * len(row_of) and len(torch.unique(degree)) > 1


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
