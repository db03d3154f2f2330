"""Graphs in sparse and dense form, and the conversions between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from d4explain.gnn.device import moved
from d4explain.gnn.edge_attributes import UsualAttributes


@dataclass(frozen=True)
class Graph:
    """One undirected graph without self-loops; every edge is stored once, source < target."""

    features: Tensor  # [node, feature]
    edges: Tensor  # [2, edge] int64
    target: int | None = None  # the marked node, which a node classifier classifies
    edge_attributes: Tensor | None = None  # [edge, attribute]
    usual: UsualAttributes | None = None  # attributes of added edges

    def __post_init__(self) -> None:
        if self.edge_attributes is not None and len(self.edge_attributes) != self.edge_count:
            raise ValueError(
                f"{len(self.edge_attributes)} edges have attributes; "
                f"the graph has {self.edge_count} edges"
            )
        if self.target is not None and not 0 <= self.target < self.node_count:
            raise ValueError(
                f"node {self.target} is marked; the graph has nodes 0 to {self.node_count - 1}"
            )

    @property
    def node_count(self) -> int:
        return self.features.shape[0]

    @property
    def edge_count(self) -> int:
        return self.edges.shape[1]

    @property
    def pair_attributes(self) -> Tensor | None:
        """Attributes of each edge, and of each other pair if an edge were added.

        [node, node, attribute]; 0 if the attributes of added edges are unknown.
        """
        if self.edge_attributes is None:
            return None
        if self.usual is not None:
            between = self.usual.between(self.features).clone()
        else:
            width = self.edge_attributes.shape[1]
            between = self.edge_attributes.new_zeros(self.node_count, self.node_count, width)
        source, target = self.edges
        between[source, target] = self.edge_attributes
        between[target, source] = self.edge_attributes
        return between

    def with_edges(self, edges: Tensor) -> Graph:
        """The same nodes with other [2, edge] edges, source < target.

        Existing edges keep their attributes; new edges get `usual` ones. Memory grows with the
        edges, not with the square of the nodes.
        """
        if self.edge_attributes is None:
            return replace(self, edges=edges)
        if self.usual is None:
            raise ValueError("the edges have attributes, but those of an added edge are unknown")
        known, order = (self.edges[0] * self.node_count + self.edges[1]).sort()
        codes = edges[0] * self.node_count + edges[1]
        attributes = self.usual.of_pairs(self.features, edges[0], edges[1]).clone()
        existed = torch.isin(codes, known)
        place = torch.searchsorted(known, codes[existed])
        attributes[existed] = self.edge_attributes[order[place]]
        return replace(self, edges=edges, edge_attributes=attributes)

    def cpu(self) -> Graph:
        return replace(
            self,
            features=self.features.cpu(),
            edges=self.edges.cpu(),
            edge_attributes=None if self.edge_attributes is None else self.edge_attributes.cpu(),
        )


@dataclass(frozen=True)
class SparseGraphs:
    """Several graphs as one disjoint union, the input of PyG layers."""

    features: Tensor  # [node of all graphs, feature]
    edge_index: Tensor  # [2, 2·edge], both directions
    graph_of_node: Tensor  # [node of all graphs]
    count: int
    targets: Tensor | None = None  # [graph] int64, marked nodes among the nodes of all graphs
    edge_attributes: Tensor | None = None  # [2·edge, attribute]

    def to(self, device: torch.device) -> SparseGraphs:
        return SparseGraphs(
            self.features.to(device),
            self.edge_index.to(device),
            self.graph_of_node.to(device),
            self.count,
            None if self.targets is None else self.targets.to(device),
            None if self.edge_attributes is None else self.edge_attributes.to(device),
        )


@dataclass(frozen=True)
class DenseGraphs:
    """A padded batch; the adjacency is symmetric, 0 on diagonal and padding, and may be soft."""

    adjacency: Tensor  # [batch, node, node]
    features: Tensor  # [batch, node, feature], zero on padding
    mask: Tensor  # [batch, node] bool, True where a node is real
    targets: Tensor | None = None  # [batch] int64, the marked nodes
    # [batch, node, node, attribute], symmetric; absent edges have the attributes of added edges
    edge_attributes: Tensor | None = None

    @property
    def count(self) -> int:
        return self.adjacency.shape[0]

    @property
    def pair_mask(self) -> Tensor:
        """True for ordered pairs of two different real nodes: [batch, node, node] bool."""
        both = self.mask[:, :, None] & self.mask[:, None, :]
        return both & ~torch.eye(self.mask.shape[1], dtype=torch.bool, device=self.mask.device)

    def with_adjacency(self, adjacency: Tensor) -> DenseGraphs:
        return replace(self, adjacency=adjacency)

    def select(self, index: Tensor | slice) -> DenseGraphs:
        return DenseGraphs(
            self.adjacency[index],
            self.features[index],
            self.mask[index],
            None if self.targets is None else self.targets[index],
            None if self.edge_attributes is None else self.edge_attributes[index],
        )

    def repeat(self, times: int) -> DenseGraphs:
        """Each graph `times` times in a row: graph 0, 0, …, 1, 1, …"""
        return DenseGraphs(
            self.adjacency.repeat_interleave(times, dim=0),
            self.features.repeat_interleave(times, dim=0),
            self.mask.repeat_interleave(times, dim=0),
            None if self.targets is None else self.targets.repeat_interleave(times),
            None
            if self.edge_attributes is None
            else self.edge_attributes.repeat_interleave(times, dim=0),
        )

    def to(self, device: torch.device) -> DenseGraphs:
        return DenseGraphs(
            moved(self.adjacency, device),
            _sharing(self.features, device),
            moved(self.mask, device),
            None if self.targets is None else moved(self.targets, device),
            None if self.edge_attributes is None else _sharing(self.edge_attributes, device),
        )


def is_shared(values: Tensor) -> bool:
    """Whether all graphs of a batch share one copy."""
    return len(values) > 1 and values.stride(0) == 0


def _sharing(values: Tensor, device: torch.device) -> Tensor:
    """Moves the values; a shared copy stays shared."""
    return moved(values[:1] if is_shared(values) else values, device).expand_as(values)


def to_sparse(graphs: Sequence[Graph]) -> SparseGraphs:
    device = graphs[0].features.device
    sizes = torch.tensor([graph.node_count for graph in graphs], device=device)
    starts = torch.cumsum(sizes, 0) - sizes
    one_way = torch.cat(
        [graph.edges + start for graph, start in zip(graphs, starts, strict=True)], dim=1
    )
    targets, attributes = _targets(graphs), _attributes(graphs)
    return SparseGraphs(
        features=torch.cat([graph.features for graph in graphs]),
        edge_index=torch.cat([one_way, one_way.flip(0)], dim=1),
        graph_of_node=torch.repeat_interleave(torch.arange(len(graphs), device=device), sizes),
        count=len(graphs),
        targets=None if targets is None else targets + starts,
        edge_attributes=None if attributes is None else torch.cat([*attributes, *attributes]),
    )


def to_dense(graphs: Sequence[Graph], nodes: int | None = None) -> DenseGraphs:
    """Pads to the largest graph, or to `nodes`."""
    first = graphs[0].features
    counts = [graph.node_count for graph in graphs]
    width = max(counts) if nodes is None else nodes
    adjacency = first.new_zeros(len(graphs), width, width)
    features = first.new_zeros(len(graphs), width, first.shape[1])
    mask = torch.arange(width) < torch.tensor(counts)[:, None]
    mask = mask.to(first.device)
    features[mask] = torch.cat([graph.features for graph in graphs])
    source, target = torch.cat([graph.edges for graph in graphs], dim=1)
    edges = torch.tensor([graph.edge_count for graph in graphs], device=source.device)
    place = torch.arange(len(graphs), device=source.device).repeat_interleave(edges)
    adjacency[place, source, target] = 1
    adjacency[place, target, source] = 1
    return DenseGraphs(
        adjacency, features, mask, _targets(graphs), _padded_pair_attributes(graphs, width)
    )


def _padded_pair_attributes(graphs: Sequence[Graph], nodes: int) -> Tensor | None:
    known = _attributes(graphs)
    if known is None:
        return None
    padded = known[0].new_zeros(len(graphs), nodes, nodes, known[0].shape[1])
    for position, graph in enumerate(graphs):
        own = graph.pair_attributes
        assert own is not None
        padded[position, : graph.node_count, : graph.node_count] = own
    return padded


def side_by_side(graphs: DenseGraphs) -> SparseGraphs:
    """A batch with a 0/1 adjacency as one disjoint union, the input of PyG layers."""
    sizes = graphs.mask.sum(dim=1)
    # [batch, node], position of each real node among the nodes of all graphs
    place = (graphs.mask.flatten().cumsum(0) - 1).view_as(graphs.mask)
    graph, source, target = (graphs.adjacency > 0.5).nonzero(as_tuple=True)
    index = torch.arange(graphs.count, device=graphs.mask.device)
    attributes = graphs.edge_attributes
    return SparseGraphs(
        features=graphs.features[graphs.mask],
        edge_index=torch.stack([place[graph, source], place[graph, target]]),
        graph_of_node=torch.repeat_interleave(index, sizes),
        count=graphs.count,
        targets=None if graphs.targets is None else place[index, graphs.targets],
        edge_attributes=None if attributes is None else attributes[graph, source, target],
    )


def from_dense(graphs: DenseGraphs) -> list[Graph]:
    """The discrete graphs of a batch with a 0/1 adjacency; padding must come last."""
    result = []
    targets = [None] * graphs.count if graphs.targets is None else graphs.targets.tolist()
    pairs = [None] * graphs.count if graphs.edge_attributes is None else graphs.edge_attributes
    for adjacency, features, mask, target, attributes in zip(
        graphs.adjacency, graphs.features, graphs.mask, targets, pairs, strict=True
    ):
        size = int(mask.sum())
        edges = torch.triu(adjacency[:size, :size] > 0.5, diagonal=1).nonzero().T.contiguous()
        own = None if attributes is None else attributes[edges[0], edges[1]]
        result.append(Graph(features[:size], edges, target, own))
    return result


def _targets(graphs: Sequence[Graph]) -> Tensor | None:
    """The marked nodes [graph], or None if no graph has one; a mixture is an error."""
    marked = [graph.target for graph in graphs if graph.target is not None]
    if not marked:
        return None
    if len(marked) < len(graphs):
        raise ValueError(
            f"{len(marked)} of {len(graphs)} graphs have a marked node; all must, or none"
        )
    return torch.tensor(marked, device=graphs[0].features.device)


def _attributes(graphs: Sequence[Graph]) -> list[Tensor] | None:
    """The edge attributes of each graph, or None if no graph has any; a mixture is an error."""
    known = [graph.edge_attributes for graph in graphs if graph.edge_attributes is not None]
    if not known:
        return None
    if len(known) < len(graphs):
        raise ValueError(
            f"{len(known)} of {len(graphs)} graphs have edge attributes; all must, or none"
        )
    return known


def like_sized(sizes: Sequence[int], pair_budget: int) -> list[list[int]]:
    """Batches of indices of graphs of similar size; the padded pairs of a batch fit the budget.

    Graphs come by ascending size, so batches have little padding. A graph that alone exceeds the
    budget is a batch of its own.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(sizes)), key=lambda i: (sizes[i], i)):
        fits = batches and (len(batches[-1]) + 1) * sizes[index] ** 2 <= pair_budget
        if fits:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
