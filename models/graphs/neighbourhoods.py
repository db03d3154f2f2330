"""One node of one large graph as an instance of its own: the part that its class depends on.

A GNN of L convolutions looks L hops far; normalised ones (GCN) also see the degrees of the nodes L
hops away, hence their neighbours one hop further. The subgraph of L hops, or of L + 1 hops with a
GCN among them, the GNN's sight, therefore gives that node exactly the logits of the whole graph.
Edits keep it so as long as they touch only nodes within L hops and add no shortcuts: an edge from
near to far would pull nodes into sight whose own neighbours were left out. Edges between nodes
whose hops differ by at most one are no shortcuts: no set of them, of any size, brings any node
nearer than it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs, Graph, to_dense
from d4explain.gnn.network import Gnn, predict
from models.errors import UnknownTargetError
from models.graphs.edits import EditRules


@dataclass(frozen=True)
class NodeInstance:
    """A node's neighbourhood, by hops and then by number: node 0 is the one in question."""

    graph: Graph  # node 0 is marked
    nodes: Tensor  # [node] int64, what the whole graph calls them
    hops: Tensor  # [node] int64, from node 0
    layers: int  # convolutions of the GNN
    sight: int  # hops that the GNN's answer depends on: layers, one more if it reads degrees
    rim: int | None  # hops of the nearest node with neighbours left out, None if there is none

    @property
    def exact(self) -> bool:
        """Whether node 0 gets the logits that it has in the whole graph.

        Nodes nearer than the sight must have all their neighbours: their degrees are read, or
        they gather what their neighbours hold.
        """
        return self.rim is None or self.rim >= self.sight

    @property
    def frozen_nodes(self) -> frozenset[int]:
        """Nodes farther than the GNN looks: no edit may touch them."""
        return frozenset((self.hops > self.layers).nonzero()[:, 0].tolist())

    @property
    def shortcuts(self) -> frozenset[tuple[int, int]]:
        """Pairs whose edge might pull the rim into sight; never an edge of the graph.

        They are more than one ring apart, where the rings nearer than the spare hops (between
        sight and rim) count as one: pulled to the centre they leave the rim out of sight.
        """
        if self.rim is None:
            return frozenset()
        ring = self._rings(self.rim)
        return _pairs(ring[None, :] - ring[:, None] > 1)

    @property
    def idle_pairs(self) -> frozenset[tuple[int, int]]:
        """Pairs of the last ring whose edge, without shortcuts, changes nothing for node 0.

        A GNN that reads no degrees gathers nothing at nodes as far away as it has layers.
        """
        if self.rim is None or self.sight > self.layers:
            return frozenset()
        last = self._rings(self.rim) >= self.layers
        return _pairs(last[None, :] & last[:, None])

    def _rings(self, rim: int) -> Tensor:
        """Of the nodes that edits may touch, ascending; no edge but a shortcut skips one: [node]"""
        spare = max(rim - self.sight, 0)
        return (self.hops[self.hops <= self.layers] - spare).clamp(min=0)

    def rules(self, rules: EditRules, *, shortcuts: bool = False) -> EditRules:
        """The rules within this instance; those given speak of its nodes, not of the whole's.

        With shortcuts, only `verify_on_whole` knows what an edited instance's node really gets.
        """
        pairs = frozenset() if shortcuts else self.shortcuts | self.idle_pairs
        return replace(
            rules,
            frozen_nodes=rules.frozen_nodes | self.frozen_nodes,
            frozen_pairs=rules.frozen_pairs | pairs,
        )


def instance(
    graph: Graph,
    node: int,
    layers: int,
    *,
    sight: int | None = None,
    hops: int | None = None,
    max_nodes: int | None = None,
) -> NodeInstance:
    """What a GNN of that many convolutions sees around a node of a large graph.

    `sight` is `GnnSpec.sight`, by default layers + 1, which is enough for every GNN. `hops` is the
    sight unless more are asked for; with layers - 1 more there are no shortcuts. Where hubs make
    that too large, the first `max_nodes` nodes by (hops, number) stay: near ones before far ones,
    so that what stays is connected. Takes time and memory in the graph's nodes and edges, never in
    their square.
    """
    sight = layers + 1 if sight is None else sight
    radius = sight if hops is None else hops
    if not 0 <= node < graph.node_count:
        raise UnknownTargetError(node, graph.node_count)
    if layers < 0 or radius < 0:
        raise ValueError(f"layers and hops are not negative, got {layers} and {radius}")
    if sight < layers:
        raise ValueError(f"a GNN of {layers} layers sees no less than so many hops, got {sight}")
    if max_nodes is not None and max_nodes < 1:
        raise ValueError(f"an instance has at least its own node, got max_nodes {max_nodes}")
    distance = _hops_from(graph, node, radius)
    reached = (distance >= 0).nonzero()[:, 0]
    kept = reached[torch.argsort(distance[reached], stable=True)][:max_nodes]
    place = torch.full_like(distance, -1)
    place[kept] = torch.arange(len(kept), device=place.device)
    ends = place[graph.edges]  # [2, edge], -1 outside
    inside = (ends >= 0).all(dim=0)
    # nodes of which some neighbour is not in the instance
    cut = torch.where(ends[0] >= 0, *ends)[(ends >= 0).any(dim=0) & ~inside]
    edges, order = _sorted(ends[:, inside], len(kept))
    carried = graph.edge_attributes
    return NodeInstance(
        graph=replace(
            graph,
            features=graph.features[kept],
            edges=edges,
            target=0,
            edge_attributes=None if carried is None else carried[inside][order],
        ),
        nodes=kept,
        hops=distance[kept],
        layers=layers,
        sight=sight,
        rim=int(distance[kept][cut].min()) if len(cut) else None,
    )


def editable(graphs: DenseGraphs, layers: int, sight: int) -> Tensor:
    """Which pairs of node instances an explanation may toggle: [batch, node, node] bool.

    As `NodeInstance.rules` says, for instances of which nothing is known but their nodes: whatever
    reaches as far as the GNN sees is taken to go on there. Of whole graphs, all pairs.
    """
    if graphs.targets is None:
        return graphs.pair_mask
    hops = _dense_hops(graphs, sight)
    near = hops <= layers
    both = graphs.pair_mask & near[:, :, None] & near[:, None, :]
    gap = (hops[:, :, None] - hops[:, None, :]).abs()
    allowed = both & (gap <= 1)
    if sight == layers:
        last = hops >= layers
        allowed &= ~(last[:, :, None] & last[:, None, :])
    goes_on = (hops == sight).any(dim=1)[:, None, None]
    return torch.where(goes_on, allowed, both)


def usual_rules(graph: Graph, layers: int, sight: int) -> EditRules:
    """Those of `editable`, for one graph."""
    if graph.target is None:
        return EditRules()
    dense = to_dense([graph])
    return EditRules(frozen_pairs=_pairs(dense.pair_mask[0] & ~editable(dense, layers, sight)[0]))


def edited_whole(whole: Graph, instance: NodeInstance, edited: Graph) -> Graph:
    """The whole graph with the instance's edits applied and its node marked."""
    if edited.node_count != instance.graph.node_count:
        raise ValueError(
            f"edits keep the nodes: the instance has {instance.graph.node_count}, "
            f"the edited graph {edited.node_count}"
        )
    before = _codes(instance.nodes[instance.graph.edges], whole.node_count)
    after = _codes(instance.nodes[edited.edges], whole.node_count)
    removed = before[~torch.isin(before, after)]
    added = after[~torch.isin(after, before)]
    codes = _codes(whole.edges, whole.node_count)
    stay = ~torch.isin(codes, removed)
    attributes = whole.edge_attributes
    if attributes is not None and edited.edge_attributes is not None:
        attributes = torch.cat(
            [attributes[stay], edited.edge_attributes[~torch.isin(after, before)]]
        )
    codes = torch.cat([codes[stay], added])
    edges = torch.stack([codes // whole.node_count, codes % whole.node_count])
    return replace(whole, edges=edges, target=int(instance.nodes[0]), edge_attributes=attributes)


def verify_on_whole(
    gnn: Gnn, whole: Graph, instance: NodeInstance, edited: Graph, device: torch.device
) -> Tensor:
    """Class probabilities [class] of the node by the sparse GNN on the whole edited graph."""
    return predict(gnn, [edited_whole(whole, instance, edited)], device)[0]


def _hops_from(graph: Graph, node: int, radius: int) -> Tensor:
    """Hops of every node from the given one, -1 beyond the radius: [node]."""
    hops = torch.full((graph.node_count,), -1, dtype=torch.int64, device=graph.edges.device)
    hops[node] = 0
    for step in range(1, radius + 1):
        on_front = hops[graph.edges] == step - 1  # [2, edge]
        # the other ends of the edges that the front has
        neighbours = graph.edges.flip(0)[on_front]
        fresh = neighbours[hops[neighbours] < 0]
        if not len(fresh):
            break
        hops[fresh] = step
    return hops


def _dense_hops(graphs: DenseGraphs, radius: int) -> Tensor:
    """Hops of every node from its graph's marked one, radius + 1 beyond: [batch, node]."""
    assert graphs.targets is not None
    front = torch.zeros_like(graphs.mask).scatter_(1, graphs.targets[:, None], True)
    hops = torch.where(front, 0, radius + 1)
    for step in range(1, radius + 1):
        near = torch.bmm(front[:, None, :].to(graphs.adjacency.dtype), graphs.adjacency)[:, 0]
        front = (near > 0) & (hops > radius)
        hops = torch.where(front, step, hops)
    return hops


def _pairs(wanted: Tensor) -> frozenset[tuple[int, int]]:
    """Where a [node, node] mask is true, each pair once."""
    return frozenset(map(tuple, torch.triu(wanted, diagonal=1).nonzero().tolist()))


def _sorted(ends: Tensor, nodes: int) -> tuple[Tensor, Tensor]:
    """Edges with source < target, in order: [2, edge], and where each was before: [edge]."""
    codes, order = _codes(ends, nodes).sort()
    return torch.stack([codes // nodes, codes % nodes]), order


def _codes(edges: Tensor, nodes: int) -> Tensor:
    """One number per edge, whichever end comes first: [edge]."""
    return edges.amin(dim=0) * nodes + edges.amax(dim=0)
