from __future__ import annotations

import networkx as nx
import torch

from d4explain.gnn.graphs import Graph
from models.counterfactual.large.patches import local_parts


def test_local_parts_are_connected_induced_subgraphs() -> None:
    graph = nx.barabasi_albert_graph(400, 2, seed=0)
    edges = torch.tensor(sorted(tuple(sorted(edge)) for edge in graph.edges)).T.contiguous()
    features = torch.arange(400.0)[:, None]
    parts = local_parts(Graph(features, edges), 64, 100)
    assert len(parts) == 13
    all_edges = set(map(tuple, edges.T.tolist()))
    for part in parts:
        assert part.node_count <= 64
        names = part.features[:, 0].long()
        edges_of_part = {tuple(sorted(names[pair].tolist())) for pair in part.edges.T}
        induced = {pair for pair in all_edges if set(pair) <= set(names.tolist())}
        assert edges_of_part == induced
        assert nx.is_connected(nx.Graph(list(edges_of_part)))
