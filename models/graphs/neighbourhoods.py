"""The neighbourhood of one node as an instance of its own: the part that its class depends on.

A GNN of L convolutions reads nodes up to L hops away. Normalised convolutions (GCN) also read the
degrees of nodes L hops away, and so their neighbours one hop further. These L or L + 1 hops are the
GNN's receptive field. Inside the subgraph of the receptive field, the node has the logits that it
has in the whole graph.

Edits preserve this if they touch only nodes within L hops and add no shortcuts. A shortcut is an
edge from near to far: it can bring nodes into the receptive field whose neighbours were left out.
An edge between nodes whose hops differ by at most one is no shortcut, because no set of such edges
brings any node nearer.
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
    """A node's neighbourhood, sorted by hops and then by number; node 0 is the node itself."""

    graph: Graph  # node 0 is marked
    nodes: Tensor  # [node] int64, ids in the whole graph
    hops: Tensor  # [node] int64, from node 0
    layers: int  # convolutions of the GNN
    receptive_field: int  # in hops: layers, plus one if the GNN reads degrees
    rim: int | None  # hops of the nearest node with missing neighbours; None if there is none

    @property
    def exact(self) -> bool:
        """Whether node 0 gets the logits that it has in the whole graph.

        Nodes inside the receptive field must have all their neighbours, because the GNN reads their
        degrees or aggregates their neighbours.
        """
        return self.rim is None or self.rim >= self.receptive_field

    @property
    def frozen_nodes(self) -> frozenset[int]:
        """Nodes more than `layers` hops away; no edit may touch them."""
        return frozenset((self.hops > self.layers).nonzero()[:, 0].tolist())

    @property
    def shortcuts(self) -> frozenset[tuple[int, int]]:
        """Absent pairs whose edge might bring the rim into the receptive field.

        Their rings differ by more than one. Rings within the spare hops, between receptive field
        and rim, count as one: edges from them to the centre keep the rim outside.
        """
        if self.rim is None:
            return frozenset()
        ring = self._rings(self.rim)
        return _pairs(ring[None, :] - ring[:, None] > 1)

    @property
    def idle_pairs(self) -> frozenset[tuple[int, int]]:
        """Pairs within the last ring; without shortcuts, their edges do not affect node 0.

        A GNN that reads no degrees aggregates nothing at nodes `layers` hops away.
        """
        if self.rim is None or self.receptive_field > self.layers:
            return frozenset()
        last = self._rings(self.rim) >= self.layers
        return _pairs(last[None, :] & last[:, None])

    def _rings(self, rim: int) -> Tensor:
        """Ring of each editable node, ascending; only shortcuts skip a ring: [node]."""
        spare = max(rim - self.receptive_field, 0)
        return (self.hops[self.hops <= self.layers] - spare).clamp(min=0)

    def rules(self, rules: EditRules, *, shortcuts: bool = False) -> EditRules:
        """The given rules, which refer to the instance's nodes, plus those of the instance.

        With shortcuts, only `verify_on_whole` gives the true logits of an edited instance.
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
    receptive_field: int | None = None,
    hops: int | None = None,
    max_nodes: int | None = None,
) -> NodeInstance:
    """The part of a large graph that a GNN of `layers` convolutions reads around a node.

    `receptive_field` is that of the GNN's spec, by default layers + 1, which is enough for every
    GNN. `hops` is the receptive field by default; with layers - 1 more hops there are no shortcuts.
    If hubs make the part too large, the first `max_nodes` nodes by (hops, number) stay, so it stays
    connected. Time and memory grow with nodes plus edges.
    """
    receptive_field = layers + 1 if receptive_field is None else receptive_field
    radius = receptive_field if hops is None else hops
    if not 0 <= node < graph.node_count:
        raise UnknownTargetError(node, graph.node_count)
    if layers < 0 or radius < 0:
        raise ValueError(f"layers and hops must not be negative, got {layers} and {radius}")
    if receptive_field < layers:
        raise ValueError(
            f"receptive_field must be at least the number of layers, {layers}, "
            f"got {receptive_field}"
        )
    if max_nodes is not None and max_nodes < 1:
        raise ValueError(f"max_nodes must be at least 1, got {max_nodes}")
    distance = _hops_from(graph, node, radius)
    reached = (distance >= 0).nonzero()[:, 0]
    kept = reached[torch.argsort(distance[reached], stable=True)][:max_nodes]
    place = torch.full_like(distance, -1)
    place[kept] = torch.arange(len(kept), device=place.device)
    ends = place[graph.edges]  # [2, edge], -1 outside
    inside = (ends >= 0).all(dim=0)
    # Nodes with a neighbour outside the instance.
    cut = torch.where(ends[0] >= 0, *ends)[(ends >= 0).any(dim=0) & ~inside]
    edges, order = _sorted(ends[:, inside], len(kept))
    attributes = graph.edge_attributes
    return NodeInstance(
        graph=replace(
            graph,
            features=graph.features[kept],
            edges=edges,
            target=0,
            edge_attributes=None if attributes is None else attributes[inside][order],
        ),
        nodes=kept,
        hops=distance[kept],
        layers=layers,
        receptive_field=receptive_field,
        rim=int(distance[kept][cut].min()) if len(cut) else None,
    )


def editable(graphs: DenseGraphs, layers: int, receptive_field: int) -> Tensor:
    """The pairs that an explanation may toggle: [batch, node, node] bool; all in whole graphs.

    It follows `NodeInstance.rules`, but the whole graph is unknown. If an instance reaches as far
    as the receptive field of the GNN, it is assumed to continue there.
    """
    if graphs.targets is None:
        return graphs.pair_mask
    hops = _dense_hops(graphs, receptive_field)
    near = hops <= layers
    both = graphs.pair_mask & near[:, :, None] & near[:, None, :]
    gap = (hops[:, :, None] - hops[:, None, :]).abs()
    allowed = both & (gap <= 1)
    if receptive_field == layers:
        last = hops >= layers
        allowed &= ~(last[:, :, None] & last[:, None, :])
    continues = (hops == receptive_field).any(dim=1)[:, None, None]
    return torch.where(continues, allowed, both)


def usual_rules(graph: Graph, layers: int, receptive_field: int) -> EditRules:
    """The rules of `editable` for one graph."""
    if graph.target is None:
        return EditRules()
    dense = to_dense([graph])
    return EditRules(
        frozen_pairs=_pairs(dense.pair_mask[0] & ~editable(dense, layers, receptive_field)[0])
    )


def edited_whole(whole: Graph, instance: NodeInstance, edited: Graph) -> Graph:
    """The whole graph with the instance's edits applied and its node marked."""
    if edited.node_count != instance.graph.node_count:
        raise ValueError(
            f"edits must keep the nodes: the instance has {instance.graph.node_count}, "
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
        # The other ends of the front's edges.
        neighbours = graph.edges.flip(0)[on_front]
        fresh = neighbours[hops[neighbours] < 0]
        if not len(fresh):
            break
        hops[fresh] = step
    return hops


def _dense_hops(graphs: DenseGraphs, radius: int) -> Tensor:
    """Hops of every node from its graph's marked node, radius + 1 beyond: [batch, node]."""
    assert graphs.targets is not None
    front = torch.zeros_like(graphs.mask).scatter_(1, graphs.targets[:, None], True)
    hops = torch.where(front, 0, radius + 1)
    for step in range(1, radius + 1):
        near = torch.bmm(front[:, None, :].to(graphs.adjacency.dtype), graphs.adjacency)[:, 0]
        front = (near > 0) & (hops > radius)
        hops = torch.where(front, step, hops)
    return hops


def _pairs(mask: Tensor) -> frozenset[tuple[int, int]]:
    """The pairs at which a [node, node] mask is true, each once."""
    return frozenset(map(tuple, torch.triu(mask, diagonal=1).nonzero().tolist()))


def _sorted(ends: Tensor, nodes: int) -> tuple[Tensor, Tensor]:
    """Sorted edges with source < target: [2, edge], and their previous positions: [edge]."""
    codes, order = _codes(ends, nodes).sort()
    return torch.stack([codes // nodes, codes % nodes]), order


def _codes(edges: Tensor, nodes: int) -> Tensor:
    """One number per undirected edge: [edge]."""
    return edges.amin(dim=0) * nodes + edges.amax(dim=0)
