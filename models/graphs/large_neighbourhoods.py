"""The surroundings of a node in a large graph: a part to edit, and a part to verify on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from d4explain.gnn.graphs import Graph
from models.errors import UnknownTargetError
from models.graphs.csr_graph import Ball, CsrGraph
from models.graphs.neighbourhoods import NodeInstance

# Most nodes for verification if the part to edit is incomplete. The sparse GNN needs a few hundred
# MB and a second or two for these.
VERIFIED_NODES = 50_000


@dataclass(frozen=True)
class Surroundings:
    """The part to edit, and the larger part to verify on.

    Edits under `part.rules` bring no node nearer, so no node enters the receptive field. So if
    `exact`, the sparse GNN on `seen` gives the logits of the whole graph, edited or not.
    """

    part: NodeInstance  # node ids are those of the large graph
    seen: Graph  # the part's nodes come first; node 0 is marked
    exact: bool  # whether `seen` contains the whole receptive field
    complete: bool  # whether `part` contains the whole receptive field

    @property
    def within(self) -> NodeInstance:
        """The part as an instance of `seen`."""
        return replace(self.part, nodes=torch.arange(self.part.graph.node_count))


def surroundings(
    graph: CsrGraph,
    node: int,
    layers: int,
    receptive_field: int,
    *,
    max_nodes: int,
    verified_nodes: int = VERIFIED_NODES,
) -> Surroundings:
    """Collects the receptive field of a node; the part to edit has at most `max_nodes` nodes."""
    if not 0 <= node < graph.node_count:
        raise UnknownTargetError(node, graph.node_count)
    if not 1 <= max_nodes <= verified_nodes:
        raise ValueError(
            f"max_nodes must be from 1 to verified_nodes, {verified_nodes}, got {max_nodes}"
        )
    ball = graph.ball(node, receptive_field, verified_nodes)
    complete = ball.complete and len(ball.nodes) <= max_nodes
    part = _instance(graph, ball, max_nodes, layers, receptive_field)
    seen = (
        part
        if len(ball.nodes) <= max_nodes
        else _instance(graph, ball, None, layers, receptive_field)
    )
    return Surroundings(part, seen.graph, exact=seen.exact, complete=complete)


def _instance(
    graph: CsrGraph, ball: Ball, count: int | None, layers: int, receptive_field: int
) -> NodeInstance:
    """The first nodes of the ball with all edges between them."""
    nodes, hops = ball.nodes[:count], ball.hops[:count]
    inside = graph.inside(nodes)
    cut = hops[inside.cut]
    features = torch.from_numpy(graph.features[nodes])
    return NodeInstance(
        graph=Graph(features, torch.from_numpy(inside.edges), target=0),
        nodes=torch.from_numpy(nodes),
        hops=torch.from_numpy(hops),
        layers=layers,
        receptive_field=receptive_field,
        rim=int(cut.min()) if len(cut) else None,
    )
