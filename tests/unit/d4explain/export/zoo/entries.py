"""The 25 models of the zoo, with the graphs that they read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from d4explain.gnn.edge_attributes import UsualAttributes
from d4explain.gnn.graphs import Graph
from tests.unit.d4explain.export.zoo import deep_models, simple_models, unusual_models


@dataclass(frozen=True)
class Entry:
    """One model; `refused` are words of the refusal if the vocabulary cannot express it."""

    number: int
    make: Callable[[], nn.Module]
    counts: tuple[int, ...] = ()  # numbers of node types per column, if features are types
    edge_features: int = 0
    edge_counts: tuple[int, ...] = ()
    weighs_edges: bool = False
    output: str | None = None
    of_nodes: bool = False
    refused: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return getattr(self.make, "__name__", "")

    @property
    def summary(self) -> str:
        """The first line of the model's docstring, without its number."""
        return (inspect.getdoc(self.make) or "").partition(": ")[2].splitlines()[0]


ZOO = (
    Entry(1, simple_models.TutorialGCN),
    Entry(2, simple_models.PooledGIN),
    Entry(3, simple_models.WrappedGCN),
    Entry(4, simple_models.NodeGAT, of_nodes=True),
    Entry(5, simple_models.NodeSAGE, of_nodes=True),
    Entry(6, simple_models.JumpingGATv2),
    Entry(7, simple_models.BondGINE, edge_features=4),
    Entry(8, simple_models.ScaledPNA),
    Entry(9, simple_models.WeightedGCN, edge_features=1, weighs_edges=True),
    Entry(10, deep_models.ResidualGIN),
    Entry(11, deep_models.DeepGCN),
    Entry(12, deep_models.ExplainerNodeGCN, of_nodes=True),
    Entry(13, deep_models.ExplainerGraphGCN),
    Entry(14, deep_models.TupleGCN, output="2"),
    Entry(15, deep_models.MoleculeGIN, counts=(9, 4, 6, 5), edge_features=2, edge_counts=(5, 6)),
    Entry(16, deep_models.VirtualNodeGCN),
    Entry(17, deep_models.Polynomials),
    Entry(18, unusual_models.AttentionPooled),
    Entry(19, unusual_models.SetPooled, refused=("set2set (Set2Set)", "AttentionalAggregation")),
    Entry(20, unusual_models.HierarchicalPooled, refused=("pool1 (SAGPooling)", "drops nodes")),
    Entry(21, unusual_models.Propagated, of_nodes=True),
    Entry(22, unusual_models.TwoHeads, output="label"),
    Entry(23, unusual_models.DenselyConnected),
    Entry(24, unusual_models.Arithmetic),
    Entry(25, unusual_models.BinaryLogit),
)


def trained(entry: Entry, dtype: torch.dtype = torch.float32) -> nn.Module:
    """The model with random weights, biases and running statistics, as after training."""
    torch.manual_seed(entry.number)
    model = entry.make()
    rng = torch.Generator().manual_seed(entry.number)
    for name, tensor in model.state_dict().items():
        if name.endswith("running_var"):
            tensor.copy_(torch.rand(tensor.shape, generator=rng) + 0.5)
        elif name.endswith(("running_mean", "bias", "mean_scale")):
            tensor.copy_(torch.randn(tensor.shape, generator=rng) * 0.3)
    return model.to(dtype).eval()


def random_graphs(
    entry: Entry, number: int, seed: int, dtype: torch.dtype = torch.float32
) -> list[Graph]:
    """Graphs of 1 to 12 nodes of all densities, with the features that the model reads."""
    rng = torch.Generator().manual_seed(seed)
    graphs = []
    for index in range(number):
        size = 1 + index % 12
        density = torch.rand((), generator=rng)
        chosen = torch.triu(torch.rand(size, size, generator=rng) < density, diagonal=1)
        edges = chosen.nonzero().T.contiguous()
        features = torch.randn(size, 7, generator=rng, dtype=torch.float64)
        if entry.counts:
            features = _types(size, entry.counts, rng)
        attributes = None
        if entry.edge_features:
            attributes = torch.randn(edges.shape[1], entry.edge_features, generator=rng)
            if entry.edge_counts:
                attributes = _types(edges.shape[1], entry.edge_counts, rng)
            elif entry.weighs_edges:
                attributes = attributes.abs()
            attributes = attributes.to(dtype)
        usual = None
        if attributes is not None:
            usual = UsualAttributes.always(torch.ones(entry.edge_features, dtype=dtype))
        graphs.append(Graph(features.to(dtype), edges, edge_attributes=attributes, usual=usual))
    return graphs


def _types(rows: int, counts: Sequence[int], rng: torch.Generator) -> Tensor:
    columns = [torch.randint(count, (rows,), generator=rng) for count in counts]
    return torch.stack(columns, dim=1).double()


def run_original(entry: Entry, model: nn.Module, graphs: Sequence[Graph]) -> Tensor:
    """Logits or log-probabilities of the user's model, from a PyG batch made for it."""
    batch = Batch.from_data_list([_data(entry, graph) for graph in graphs])
    names = list(inspect.signature(model.forward).parameters)
    with torch.no_grad():
        takes_batch = len(names) == 1
        result = model(batch) if takes_batch else model(**{name: batch[name] for name in names})
    if entry.output is not None:
        result = result[int(entry.output)] if entry.output.isdigit() else result[entry.output]
    assert isinstance(result, Tensor)
    return torch.stack([torch.zeros_like(result), result], dim=1) if result.dim() == 1 else result


def _data(entry: Entry, graph: Graph) -> Data:
    data = Data(
        x=graph.features.long() if entry.counts else graph.features,
        edge_index=torch.cat([graph.edges, graph.edges.flip(0)], dim=1),
    )
    if graph.edge_attributes is not None:
        both = graph.edge_attributes.repeat(2, 1)
        if entry.weighs_edges:
            data.edge_weight = both[:, 0]
        else:
            data.edge_attr = both.long() if entry.edge_counts else both
    return data
