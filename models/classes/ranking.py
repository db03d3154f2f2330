"""The order of patterns: by contrast, each among the graphs that no earlier pattern explains.

Patterns whose contrast is near the best count as equal. Of these the one with more rings comes
first, because single branches hang on most nodes and say little. Then comes the one that explains
more of the gap between the class and others: a motif repeats and moves the GNN each time, while a
part of it moves the GNN less, and its surroundings do not repeat. Of patterns that explain as much
within the error, the one that repeats most comes first, and the smallest of several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from d4explain.gnn.graphs import Graph

# A contrast, or a number of occurrences, is near the best from this share of it. Contrasts also
# are within this many standard errors of the difference.
_NEAR = 0.85
_NEAR_ERRORS = 2.0
_LEAST = 0.05  # contrast of a pattern that explains further graphs


@dataclass(frozen=True)
class RankedPattern:
    """What decides the place of a pattern."""

    graph: Graph
    in_class: frozenset[int]  # graphs that contain it
    elsewhere: frozenset[int]
    count: float  # occurrences in a graph of the class beyond those in another one
    gap: float  # count times the effect of one insertion
    gap_error: float  # standard error

    @property
    def rings(self) -> int:
        """Independent cycles of a connected graph: edges - nodes + 1."""
        return self.graph.edge_count - self.graph.node_count + 1


def ranking(
    patterns: Sequence[RankedPattern],
    *,
    class_graphs: int,
    other_graphs: int,
    are_alike: Callable[[int, int], bool],
) -> list[int]:
    """Positions of the patterns in order, without those that add nothing.

    First those that explain further graphs. Then the others by their contrast in all graphs, unless
    they are alike: `are_alike` says that a pattern is a variant of an earlier one.
    """
    order: list[int] = []
    left = list(range(len(patterns)))
    in_class: frozenset[int] = frozenset()  # graphs with an earlier pattern
    elsewhere: frozenset[int] = frozenset()
    explains_further = True

    def contrast(position: int) -> float:
        pattern = patterns[position]
        return (
            len(pattern.in_class - in_class) / class_graphs
            - len(pattern.elsewhere - elsewhere) / other_graphs
        )

    def is_near(position: int, best: int) -> bool:
        one, other = patterns[position], patterns[best]
        # Only graphs that contain one of both patterns make the difference uncertain.
        variance = (
            len((one.in_class ^ other.in_class) - in_class) / class_graphs**2
            + len((one.elsewhere ^ other.elsewhere) - elsewhere) / other_graphs**2
        )
        tolerance = max((1 - _NEAR) * contrast(best), _NEAR_ERRORS * math.sqrt(variance))
        return contrast(position) >= max(_LEAST, contrast(best) - tolerance)

    def simplest(near: list[int]) -> int:
        """The smallest of the most frequent patterns with the most rings and the largest gap."""
        rings = max(patterns[one].rings for one in near)
        left = [one for one in near if patterns[one].rings == rings]
        largest = patterns[max(left, key=lambda one: patterns[one].gap)]
        as_large = [
            one
            for one in left
            if largest.gap - patterns[one].gap
            <= math.hypot(largest.gap_error, patterns[one].gap_error)
        ]
        most = max(patterns[one].count for one in as_large)
        repeated = [one for one in as_large if patterns[one].count >= _NEAR * most]
        return min(repeated, key=lambda one: (patterns[one].graph.node_count, -patterns[one].gap))

    while left:
        best = max(left, key=contrast)
        if contrast(best) < _LEAST:
            if not (explains_further and order):
                break
            explains_further = False
            in_class = elsewhere = frozenset()
            left = [one for one in left if not any(are_alike(one, other) for other in order)]
            continue
        first = simplest([one for one in left if is_near(one, best)])
        order.append(first)
        left.remove(first)
        if explains_further:
            in_class |= patterns[first].in_class
            elsewhere |= patterns[first].elsewhere
        else:
            left = [one for one in left if not are_alike(one, first)]
    return order
