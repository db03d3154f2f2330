"""The order of patterns: by contrast, each among the graphs that no earlier pattern explains.

Patterns whose contrast is near the best count as equal. Of these the one with more rings comes
first, because single branches hang on most nodes and say little. Then comes the one that accounts
for more of the class's graphs: a motif repeats without overlap, while a part of the surroundings,
or a motif mixed with it, does not. Around a marked node a pattern occurs once; there the one whose
breaking costs the class most comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from d4explain.gnn.graphs import Graph

_NEAR = 0.85  # share of the best contrast from which a pattern counts as equal
_LEAST = 0.05  # contrast of a pattern that explains further graphs


@dataclass(frozen=True)
class RankedPattern:
    """What decides the place of a pattern."""

    graph: Graph
    in_class: frozenset[int]  # graphs that contain it
    elsewhere: frozenset[int]
    coverage: float  # share of the class's graphs that it covers, minus that of others
    necessity: float  # how much its breaking lowers the class's log-odds

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

    def order_key(position: int) -> tuple[int, float, float, int]:
        pattern = patterns[position]
        return pattern.rings, pattern.coverage, pattern.necessity, -position

    while left:
        best = max(contrast(position) for position in left)
        if best < _LEAST:
            if not (explains_further and order):
                break
            explains_further = False
            in_class = elsewhere = frozenset()
            left = [one for one in left if not any(are_alike(one, other) for other in order)]
            continue
        near = [position for position in left if contrast(position) >= _NEAR * best]
        first = max(near, key=order_key)
        order.append(first)
        left.remove(first)
        if explains_further:
            in_class |= patterns[first].in_class
            elsewhere |= patterns[first].elsewhere
        else:
            left = [one for one in left if not are_alike(one, first)]
    return order
