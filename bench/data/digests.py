"""Digests of graphs, for cache keys."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from d4explain.gnn.graphs import Graph


def graphs_digest(graphs: Sequence[Graph]) -> str:
    content = hashlib.sha256()
    for graph in graphs:
        content.update(repr((*graph.features.shape, graph.edge_count, graph.target)).encode())
        content.update(graph.features.contiguous().numpy().tobytes())
        content.update(graph.edges.contiguous().numpy().tobytes())
    return content.hexdigest()
