"""What a node of a large graph is explained by: a part to edit, and all that decides its class."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from d4explain.gnn.graphs import Graph
from models.errors import UnknownTargetError
from models.graphs.csr_graph import Ball, CsrGraph
from models.graphs.neighbourhoods import NodeInstance

# Nodes that an answer is verified on where the part to edit does not hold all of them: the sparse
# GNN takes some hundred MB and a second or two for so many.
VERIFIED_NODES = 50_000


@dataclass(frozen=True)
class Surroundings:
    """The part that is edited, and the part that the verdict comes from.

    `part.rules` never let a node come nearer than it was. What the GNN sees of the edited graph is
    therefore within its sight in the unedited one: the sparse GNN on `seen` gives the logits of the
    whole graph, edited or not, if `exact`.
    """

    part: NodeInstance  # nodes are the large graph's
    seen: Graph  # the part's nodes come first; node 0 is marked
    exact: bool  # whether nothing in sight is missing from `seen`
    complete: bool  # whether nothing in sight is missing from `part`

    @property
    def within(self) -> NodeInstance:
        """The part as an instance of `seen`."""
        return replace(self.part, nodes=torch.arange(self.part.graph.node_count))


def surroundings(
    graph: CsrGraph,
    node: int,
    layers: int,
    sight: int,
    *,
    max_nodes: int,
    verified_nodes: int = VERIFIED_NODES,
) -> Surroundings:
    """By a walk of `sight` hops from the node; a part of more than `max_nodes` is cut to those."""
    if not 0 <= node < graph.node_count:
        raise UnknownTargetError(node, graph.node_count)
    if not 1 <= max_nodes <= verified_nodes:
        raise ValueError(
            f"a part has one node at least and no more than are verified, got max_nodes "
            f"{max_nodes} of {verified_nodes}"
        )
    ball = graph.ball(node, sight, verified_nodes)
    complete = ball.complete and len(ball.nodes) <= max_nodes
    part = _instance(graph, ball, max_nodes, layers, sight)
    seen = part if len(ball.nodes) <= max_nodes else _instance(graph, ball, None, layers, sight)
    return Surroundings(part, seen.graph, exact=seen.exact, complete=complete)


def _instance(
    graph: CsrGraph, ball: Ball, count: int | None, layers: int, sight: int
) -> NodeInstance:
    """The first nodes of the ball, with all edges among them."""
    nodes, hops = ball.nodes[:count], ball.hops[:count]
    inside = graph.inside(nodes)
    cut = hops[inside.cut]
    features = torch.from_numpy(graph.features[nodes])
    return NodeInstance(
        graph=Graph(features, torch.from_numpy(inside.edges), target=0),
        nodes=torch.from_numpy(nodes),
        hops=torch.from_numpy(hops),
        layers=layers,
        sight=sight,
        rim=int(cut.min()) if len(cut) else None,
    )
