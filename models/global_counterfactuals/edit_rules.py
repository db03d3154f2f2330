"""Edits that recur on the paths to the counterfactuals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from models.global_counterfactuals.edit_paths import EditPath
from models.global_counterfactuals.typed_graphs import TypedGraph

RuleKind = Literal["retype", "add_edge", "remove_edge", "add_node", "remove_node"]


@dataclass(frozen=True)
class EditRule:
    """An edit by node types and the number of paths that contain it.

    `types` are the old and the new type, or both ends of an edge in ascending order, or the type
    of a node.
    """

    kind: RuleKind
    types: tuple[int, ...]
    paths: int


def recurring_rules(paths: Sequence[tuple[TypedGraph, EditPath]], limit: int) -> list[EditRule]:
    """The most frequent rules; each path counts once for a rule."""
    counts: Counter[tuple[RuleKind, tuple[int, ...]]] = Counter()
    for graph, path in paths:
        counts.update(set(_rules(graph, path)))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [EditRule(kind, types, count) for (kind, types), count in ranked[:limit]]


def _rules(graph: TypedGraph, path: EditPath) -> list[tuple[RuleKind, tuple[int, ...]]]:
    before = [*graph.types.tolist(), *path.inserted]
    after = list(before)
    for node, kind in path.retyped:
        after[node] = kind
    found: list[tuple[RuleKind, tuple[int, ...]]] = []
    found += [("retype", (before[node], kind)) for node, kind in path.retyped]
    found += [("add_node", (kind,)) for kind in path.inserted]
    found += [("remove_node", (before[node],)) for node in path.removed]
    found += [("add_edge", _ends(after, edge)) for edge in path.added_edges]
    found += [("remove_edge", _ends(before, edge)) for edge in path.removed_edges]
    return found


def _ends(types: list[int], edge: tuple[int, int]) -> tuple[int, int]:
    one, other = types[edge[0]], types[edge[1]]
    return (one, other) if one < other else (other, one)
