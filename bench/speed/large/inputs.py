"""Large input graphs: fixed neighbourhoods, hubs and chains of motif graphs."""

from __future__ import annotations

from collections.abc import Sequence

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
_OUTWARD = 4  # edges of each node of the last ring to the rest of the graph
_EDGES_PER_NODE = 5


def graph_with_fixed_neighbourhood(nodes: int, seed: int) -> LargeGraph:
    """Node 0 has the same neighbourhood at every size; the rest is random, 5 edges per node."""
    rng = np.random.default_rng(seed)
    near = sum(_RINGS)
    edges, features = _neighbourhood(rng)
    last = np.repeat(np.arange(near - _RINGS[-1], near), _OUTWARD)
    outward = np.stack([last, rng.integers(near, nodes, len(last))])
    wanted = _EDGES_PER_NODE * nodes - edges.shape[1]
    drawn = rng.integers(near, nodes, (2, wanted))
    listed = np.concatenate([edges, outward, drawn[:, drawn[0] != drawn[1]]], axis=1)
    codes = np.unique(listed.min(axis=0) * nodes + listed.max(axis=0))
    x = rng.standard_normal((nodes, NODE_SPEC.features), dtype=np.float32)
    x[:near] = features
    return rows_of(x, codes // nodes, codes % nodes)


def _neighbourhood(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    starts = np.cumsum([0, *_RINGS])
    pairs: list[tuple[int, int]] = []
    for ring in range(1, len(_RINGS)):
        own = range(starts[ring], starts[ring + 1])
        inner = range(starts[ring - 1], starts[ring])
        pairs += [(int(rng.choice(inner)), node) for node in own]
        pairs += [tuple(rng.choice(own, 2, replace=False)) for _ in range(len(own) // 2)]
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
    return _bare(nx.barabasi_albert_graph(nodes, 2, seed=seed))


def star_and_ba(nodes: int, seed: int) -> Graph:
    """Half of the nodes are leaves of one hub."""
    made = nx.barabasi_albert_graph(nodes // 2, 2, seed=seed)
    made.add_edges_from((0, leaf) for leaf in range(nodes // 2, nodes))
    return _bare(made)


SHAPES = {"BA": ba, "star and BA": star_and_ba}


def chain_near_boundary(gnn: Gnn, pieces: Sequence[Graph], nodes: int) -> Graph:
    """A chain of small graphs of two classes, close to the GNN's decision boundary.

    The share of the second class grows until the prediction changes; the last chain before that
    is returned.
    """
    predicted = predict(gnn, pieces, CPU).argmax(dim=1).tolist()
    kinds = sorted(set(predicted))
    of = [
        [piece for piece, kind in zip(pieces, predicted, strict=True) if kind == one]
        for one in kinds
    ]
    chain = _chained(of[0], nodes)
    before = int(predict(gnn, [chain], CPU).argmax())
    for other in of[1:]:
        last = chain
        for share in range(1, 65):
            mixed = _chained(_mixed(other, of[0], share / 64), nodes)
            if int(predict(gnn, [mixed], CPU).argmax()) != before:
                return last
            last = mixed
    return chain


def _mixed(some: Sequence[Graph], others: Sequence[Graph], share: float) -> list[Graph]:
    """Mix two lists, with this share from the first, evenly spread."""
    count = min(len(some), len(others))
    taken = [int((i + 1) * share) > int(i * share) for i in range(2 * count)]
    return [(some if first else others)[i % count] for i, first in enumerate(taken)]


def _chained(pieces: Sequence[Graph], nodes: int) -> Graph:
    """Link the first node of each piece to the first node of the previous one."""
    features, edges = [], []
    size, before = 0, None
    place = 0
    while size < nodes:
        piece = pieces[place % len(pieces)]
        features.append(piece.features)
        edges.append(piece.edges + size)
        if before is not None:
            edges.append(torch.tensor([[before], [size]]))
        before, size, place = size, size + piece.node_count, place + 1
    return Graph(torch.cat(features), torch.cat(edges, dim=1))


def _bare(made: nx.Graph) -> Graph:
    edges = torch.tensor(sorted(tuple(sorted(edge)) for edge in made.edges)).T.contiguous()
    return Graph(torch.ones(made.number_of_nodes(), 1), edges)
