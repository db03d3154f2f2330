"""Which edits recur in the answers of a test set: edits and pairs of edits by node types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import torch

from d4explain.gnn.graphs import Graph
from models.evaluation.answers import InstanceAnswer, Pair

MIN_INSTANCES = 2  # a pattern of one instance does not recur
Action = Literal["add", "remove"]
TypedEdit = tuple[Action, int, int]  # of a pair: both types, the smaller first
# Two edits at one node: each action with the type at its other end, and the type of the node.
Joined = tuple[int, tuple[Action, int], tuple[Action, int]]


@dataclass(frozen=True)
class RecurringEdit:
    """A pattern of edits and how many answers contain it."""

    edits: tuple[TypedEdit, ...]  # one, or two that share a node
    shared_type: int | None  # of the node that two edits share; None for one edit
    instances: int
    share: float  # of the answers
    # For one edit: the share of the originals' edges (absent pairs for added ones) between these
    # types. A pattern far above it is preferred; one near it is only frequent in the data.
    base_share: float | None


def recurring_edits(
    originals: Sequence[Graph],
    types: Sequence[torch.Tensor],  # [node] of each original
    answers: Sequence[InstanceAnswer],
    most: int = 20,
) -> list[RecurringEdit]:
    """The most frequent patterns, first those in most answers."""
    single: Counter[TypedEdit] = Counter()
    joined: Counter[Joined] = Counter()
    found = 0
    for answer, type_of in zip(answers, types, strict=True):
        if not answer.found:
            continue
        found += 1
        edits = list(_edits(answer))
        single.update({_typed(action, pair, type_of) for action, pair in edits})
        joined.update(set(_joined(edits, type_of)))
    base = _base_shares(originals, types)
    patterns = [
        RecurringEdit((edit,), None, count, count / found, base.get(edit))
        for edit, count in single.items()
        if count >= MIN_INSTANCES
    ]
    patterns += [
        RecurringEdit(_of_joined(pattern), pattern[0], count, count / found, None)
        for pattern, count in joined.items()
        if count >= MIN_INSTANCES
    ]
    patterns.sort(key=lambda each: (-each.instances, len(each.edits), each.edits))
    return patterns[:most]


def _edits(answer: InstanceAnswer) -> Iterator[tuple[Action, Pair]]:
    for pair in answer.added:
        yield "add", pair
    for pair in answer.removed:
        yield "remove", pair


def _typed(action: Action, pair: Pair, type_of: torch.Tensor) -> TypedEdit:
    one, other = sorted(int(type_of[node]) for node in pair)
    return action, one, other


def _joined(edits: Sequence[tuple[Action, Pair]], type_of: torch.Tensor) -> Iterator[Joined]:
    for (one, first), (other, second) in combinations(edits, 2):
        common = set(first) & set(second)
        if len(common) != 1:
            continue
        (node,) = common
        ends = sorted(
            (action, int(type_of[next(end for end in pair if end != node)]))
            for action, pair in ((one, first), (other, second))
        )
        yield int(type_of[node]), ends[0], ends[1]


def _of_joined(pattern: Joined) -> tuple[TypedEdit, ...]:
    at, *ends = pattern
    return tuple((action, min(at, end), max(at, end)) for action, end in ends)


def _base_shares(
    originals: Sequence[Graph], types: Sequence[torch.Tensor]
) -> dict[TypedEdit, float]:
    """The share of each kind of pair among the originals' edges and among their absent pairs."""
    edges: Counter[tuple[int, int]] = Counter()
    pairs: Counter[tuple[int, int]] = Counter()
    for graph, type_of in zip(originals, types, strict=True):
        edges.update((min(a, b), max(a, b)) for a, b in type_of[graph.edges].T.tolist())
        counts = Counter(type_of.tolist())
        kinds = sorted(counts)
        for place, one in enumerate(kinds):
            pairs[one, one] += counts[one] * (counts[one] - 1) // 2
            for other in kinds[place + 1 :]:
                pairs[one, other] += counts[one] * counts[other]
    present, absent = sum(edges.values()), sum(pairs.values()) - sum(edges.values())
    shares: dict[TypedEdit, float] = {}
    for (one, other), count in pairs.items():
        if present:
            shares["remove", one, other] = edges[one, other] / present
        if absent:
            shares["add", one, other] = (count - edges[one, other]) / absent
    return shares
