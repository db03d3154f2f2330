"""Small random networks and graphs for class explanations."""

from __future__ import annotations

import networkx as nx
import torch

from d4explain.gnn.graphs import Graph, to_sparse
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import ActivationLayer, GinLayer, GnnSpec, LinearLayer, PoolLayer
from models.diffusion.denoiser import Denoiser, DenoiserShape

CPU = torch.device("cpu")
FEATURES = 2
LAYERS = (GinLayer(6, 6), ActivationLayer("tanh"), GinLayer(6, 6), PoolLayer("sum"), LinearLayer(2))


def erdos_renyi(seed: int, nodes: int, density: float) -> Graph:
    rng = torch.Generator().manual_seed(seed)
    edges = torch.triu(torch.rand(nodes, nodes, generator=rng) < density, diagonal=1).nonzero().T
    return Graph(torch.randn(nodes, FEATURES, generator=rng), edges.contiguous())


REFERENCE = [erdos_renyi(seed, 9 + seed % 3, 0.35) for seed in range(12)]


def a_gnn(seed: int = 0, graphs: list[Graph] | None = None) -> Gnn:
    """Random weights, with both classes equally likely on random graphs and far apart."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        gnn = Gnn(GnnSpec(FEATURES, 2, LAYERS)).eval()
    last = gnn.layers[-1].linear
    with torch.no_grad():
        logits = gnn(to_sparse(graphs or [erdos_renyi(draw, 7, 0.5) for draw in range(64)]))
        margin = logits[:, 1] - logits[:, 0]
        last.weight.mul_(4 / margin.std())
        last.bias.mul_(4 / margin.std())
        last.bias[1] -= margin.mean() * 4 / margin.std()
    return gnn


def a_denoiser(seed: int = 0, features: int = FEATURES) -> Denoiser:
    rng = torch.Generator().manual_seed(seed)
    denoiser = Denoiser(DenoiserShape(features, hidden=8, blocks=2), rng)
    with torch.no_grad():  # a new denoiser says nothing before it is trained
        denoiser.head_out.copy_(0.3 * torch.randn(denoiser.head_out.shape, generator=rng))
    return denoiser.eval()


def networkx_of(graph: Graph) -> nx.Graph:
    result = nx.Graph()
    result.add_nodes_from((node, {"x": row}) for node, row in enumerate(graph.features.tolist()))
    result.add_edges_from(graph.edges.T.tolist())
    return result
