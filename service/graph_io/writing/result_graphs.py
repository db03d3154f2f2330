"""Canonical graphs as graphs of answers, with the caller's node ids."""

from __future__ import annotations

from collections.abc import Sequence

from d4explain.contracts.requests import CanonicalGraph
from d4explain.contracts.results import ResultEdge, ResultGraph, ResultNode


def as_result_graph(graph: CanonicalGraph) -> ResultGraph:
    ids = graph.node_ids
    attributes: Sequence[list[float] | None] = graph.edge_attr or [None] * len(graph.edges)
    return ResultGraph(
        nodes=[ResultNode(id=id_, x=x) for id_, x in zip(ids, graph.x, strict=True)],
        edges=[
            ResultEdge(source=ids[source], target=ids[target], edge_attr=values)
            for (source, target), values in zip(graph.edges, attributes, strict=True)
        ],
    )
