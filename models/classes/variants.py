"""Whether two patterns are variants of each other."""

from __future__ import annotations

from d4explain.gnn.graphs import Graph
from models.classes.reference_graphs import ReferenceGraphs
from models.graphs.subgraphs import induced_subgraph, neighbours_of

_FEWEST_COMMON = 4  # nodes that two patterns of more nodes must have in common


def are_variants(one: Graph, other: Graph, reference: ReferenceGraphs) -> bool:
    """Whether one contains the other, or all of it but one node."""
    return _is_mostly_in(one, other, reference) or _is_mostly_in(other, one, reference)


def _is_mostly_in(part: Graph, whole: Graph, reference: ReferenceGraphs) -> bool:
    inside = reference.typed(whole)
    if reference.pattern(part).occurrence(inside) is not None:
        return True
    neighbours = neighbours_of(part)
    nodes = range(part.node_count)
    smaller = (
        induced_subgraph(part, neighbours, [node for node in nodes if node != left_out])
        for left_out in nodes
        if left_out != part.target
    )
    return part.node_count > _FEWEST_COMMON and any(
        reference.pattern(one).occurrence(inside) is not None for one in smaller
    )
