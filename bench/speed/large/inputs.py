"""Large input graphs: fixed neighbourhoods, hubs and chains of motif graphs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import networkx as nx
import numpy as np
import torch

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import ActivationLayer, GcnLayer, GnnSpec, LinearLayer
from store.artifacts.large_graphs import LargeGraph, rows_of

CPU = torch.device("cpu")
NODE_SPEC = GnnSpec(
    8,
    3,
    (GcnLayer(32), ActivationLayer("relu"), GcnLayer(32), ActivationLayer("relu"), LinearLayer(3)),
)
# Number of nodes at 0 to 3 hops from the target: all that two GCN layers see.
_RINGS = (1, 6, 20, 40)
_OUTER_EDGES = 4  # edges of each node of the last ring to the rest of the graph
_EDGES_PER_NODE = 5


def graph_with_fixed_neighbourhood(nodes: int, seed: int) -> LargeGraph:
    """Node 0 has the same neighbourhood at every size; the rest is random, 5 edges per node."""
    rng = np.random.default_rng(seed)
    inner_nodes = sum(_RINGS)
    edges, features = _neighbourhood(rng)
    last_ring = np.repeat(np.arange(inner_nodes - _RINGS[-1], inner_nodes), _OUTER_EDGES)
    outer = np.stack([last_ring, rng.integers(inner_nodes, nodes, len(last_ring))])
    random_count = _EDGES_PER_NODE * nodes - edges.shape[1]
    drawn = rng.integers(inner_nodes, nodes, (2, random_count))
    ends = np.concatenate([edges, outer, drawn[:, drawn[0] != drawn[1]]], axis=1)
    codes = np.unique(ends.min(axis=0) * nodes + ends.max(axis=0))
    x = rng.standard_normal((nodes, NODE_SPEC.features), dtype=np.float32)
    x[:inner_nodes] = features
    return rows_of(x, codes // nodes, codes % nodes)


def _neighbourhood(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    starts = np.cumsum([0, *_RINGS])
    pairs: list[tuple[int, int]] = []
    for ring in range(1, len(_RINGS)):
        nodes = range(starts[ring], starts[ring + 1])
        inner = range(starts[ring - 1], starts[ring])
        pairs += [(int(rng.choice(inner)), node) for node in nodes]
        pairs += [tuple(rng.choice(nodes, 2, replace=False)) for _ in range(len(nodes) // 2)]
    features = rng.standard_normal((sum(_RINGS), NODE_SPEC.features), dtype=np.float32)
    return np.array(sorted({tuple(sorted(pair)) for pair in pairs})).T, features


def node_gnn() -> Gnn:
    """A GNN with random weights, because predictions do not affect the measurement."""
    gnn = Gnn(NODE_SPEC).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for parameter in gnn.parameters():
        parameter.normal_(std=0.5, generator=generator)
    return gnn


def ba(nodes: int, seed: int) -> Graph:
    return _from_networkx(nx.barabasi_albert_graph(nodes, 2, seed=seed))


def star_and_ba(nodes: int, seed: int) -> Graph:
    """Half of the nodes are leaves of one hub."""
    network = nx.barabasi_albert_graph(nodes // 2, 2, seed=seed)
    network.add_edges_from((0, leaf) for leaf in range(nodes // 2, nodes))
    return _from_networkx(network)


SHAPES = {"BA": ba, "star and BA": star_and_ba}


def chain_near_boundary(gnn: Gnn, pieces: Sequence[Graph], nodes: int) -> Graph:
    """A chain of small graphs of two classes, close to the GNN's decision boundary.

    The share of the second class grows until the prediction changes; the last chain before that
    is returned.
    """
    predicted = predict(gnn, pieces, CPU).argmax(dim=1).tolist()
    first, *others = (
        [piece for piece, label in zip(pieces, predicted, strict=True) if label == wanted]
        for wanted in sorted(set(predicted))
    )
    chain = _chained(first, nodes)
    before = int(predict(gnn, [chain], CPU).argmax())
    for other in others:
        last = chain
        for share in range(1, 65):
            mixed = _chained(_mixed(other, first, share / 64), nodes)
            if int(predict(gnn, [mixed], CPU).argmax()) != before:
                return last
            last = mixed
    return chain


def _mixed(first: Sequence[Graph], second: Sequence[Graph], share: float) -> list[Graph]:
    """Mix two lists, with this share from the first, evenly spread."""
    count = min(len(first), len(second))
    from_first = [int((i + 1) * share) > int(i * share) for i in range(2 * count)]
    return [(first if chosen else second)[i % count] for i, chosen in enumerate(from_first)]


def _chained(pieces: Sequence[Graph], nodes: int) -> Graph:
    """Link the first node of each piece to the first node of the previous one."""
    features, edges = [], []
    size, previous = 0, None
    for piece in cycle(pieces):
        if size >= nodes:
            break
        features.append(piece.features)
        edges.append(piece.edges + size)
        if previous is not None:
            edges.append(torch.tensor([[previous], [size]]))
        previous, size = size, size + piece.node_count
    return Graph(torch.cat(features), torch.cat(edges, dim=1))


def _from_networkx(network: nx.Graph) -> Graph:
    edges = torch.tensor(sorted(tuple(sorted(edge)) for edge in network.edges)).T.contiguous()
    return Graph(torch.ones(network.number_of_nodes(), 1), edges)
