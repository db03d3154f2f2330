"""Takes fixed samples of reference sets that are too large to use as a whole."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from d4explain.gnn.graphs import Graph
from d4explain.gnn.spec import GnnSpec
from models.graphs.csr_graph import CsrGraph
from models.graphs.large_neighbourhoods import surroundings
from models.graphs.neighbourhoods import instance
from worker.loading.graph_conversion import graph_bytes

# Neighbourhoods overlap, so a thousand of them cover what a denoiser can learn from a graph.
REFERENCE_NODES = 1000
_MAX_NEIGHBOURHOOD_BYTES = 256 * 1024 * 1024


def sample_neighbourhoods(
    graphs: Sequence[Graph],
    spec: GnnSpec,
    count: int = REFERENCE_NODES,
    *,
    max_nodes: int | None = None,
) -> list[Graph]:
    """The subgraphs that a node classifier sees around a fixed sample of nodes.

    Each subgraph marks its node. They are ordered by graph, then by node.
    """
    nodes = [(graph, node) for graph in graphs for node in range(graph.node_count)]
    sampled: dict[int, Graph] = {}
    used_bytes = 0
    for index in _fixed_choice(len(nodes), count):
        graph, node = nodes[index]
        part = instance(
            graph,
            node,
            spec.convolutions,
            receptive_field=spec.receptive_field,
            max_nodes=max_nodes,
        ).graph
        used_bytes += graph_bytes(part)
        if used_bytes > _MAX_NEIGHBOURHOOD_BYTES and sampled:
            break
        sampled[index] = part
    return [sampled[index] for index in sorted(sampled)]


def sample_large_neighbourhoods(
    graph: CsrGraph, spec: GnnSpec, max_nodes: int, count: int = REFERENCE_NODES
) -> list[Graph]:
    """The same for one large graph, ordered by node."""
    sampled: dict[int, Graph] = {}
    used_bytes = 0
    for node in _fixed_choice(graph.node_count, count):
        around = surroundings(
            graph,
            node,
            spec.convolutions,
            spec.receptive_field,
            max_nodes=max_nodes,
            verified_nodes=max_nodes,
        )
        used_bytes += graph_bytes(around.part.graph)
        if used_bytes > _MAX_NEIGHBOURHOOD_BYTES and sampled:
            break
        sampled[node] = around.part.graph
    return [sampled[node] for node in sorted(sampled)]


def fixed_sample(graphs: Sequence[Graph], count: int, cubed_nodes: int) -> list[Graph]:
    """Up to `count` graphs, and at least two, whose sum of nodes³ stays below `cubed_nodes`."""
    used = 0
    chosen: list[int] = []
    for index in _fixed_choice(len(graphs), count):
        used += graphs[index].node_count ** 3
        if used > cubed_nodes and len(chosen) >= 2:
            break
        chosen.append(index)
    return [graphs[index] for index in sorted(chosen)]


def _fixed_choice(of: int, count: int) -> list[int]:
    """The same positions below `of` every time, in random order."""
    generator = torch.Generator().manual_seed(0)
    return torch.randperm(of, generator=generator)[:count].tolist()
