"""Models 10 to 17 of the zoo: residuals, models of explainers, OGB's models, polynomials."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn import BatchNorm1d, LayerNorm, Linear, ReLU, Sequential
from torch_geometric.data import Data
from torch_geometric.nn import (
    ChebConv,
    DeepGCNLayer,
    GCNConv,
    GINConv,
    GINEConv,
    GraphConv,
    TAGConv,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)


class ResidualGIN(nn.Module):
    """10: residual GIN blocks with LayerNorm and GELU."""

    def __init__(self, dim: int = 12, depth: int = 3) -> None:
        super().__init__()
        self.inp = Linear(7, dim)
        self.convs = nn.ModuleList(
            GINConv(Sequential(Linear(dim, 2 * dim), nn.GELU(), Linear(2 * dim, dim)))
            for _ in range(depth)
        )
        self.norms = nn.ModuleList(LayerNorm(dim) for _ in range(depth))
        self.out = Linear(dim, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        h = self.inp(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            h = h + F.gelu(norm(conv(h, edge_index)))
        return self.out(global_mean_pool(h, batch))


class PreNormBlock(nn.Module):
    """Norm, activation, convolution, addition: the order of DeepGCN's `res+`."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = BatchNorm1d(dim)
        self.conv = GCNConv(dim, dim)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = F.relu(self.norm(x))
        h = F.dropout(h, 0.1, training=self.training)
        return x + self.conv(h, edge_index)


class DeepGCN(nn.Module):
    """11: pre-norm residual blocks (Li et al. 2020), of one's own and by PyG's DeepGCNLayer."""

    def __init__(self, dim: int = 12) -> None:
        super().__init__()
        self.encoder = Linear(7, dim)
        self.blocks = nn.ModuleList([PreNormBlock(dim) for _ in range(3)])
        self.layer = DeepGCNLayer(
            GraphConv(dim, dim, aggr="mean"), LayerNorm(dim), ReLU(inplace=True), block="res+"
        )
        self.norm = BatchNorm1d(dim)
        self.lin = Linear(dim, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x = self.encoder(x)
        for block in self.blocks:
            x = block(x, edge_index)
        x = self.layer(x, edge_index)
        x = F.relu(self.norm(x))
        return self.lin(global_mean_pool(x, batch))


class ExplainerNodeGCN(nn.Module):
    """12: GNNExplainer's node classifier: normalised layers, concatenated (Ying et al. 2019)."""

    def __init__(self, hidden: int = 8) -> None:
        super().__init__()
        self.conv1 = GCNConv(7, hidden)
        self.conv2 = GCNConv(hidden, hidden)
        self.conv3 = GCNConv(hidden, hidden)
        self.lin = Linear(3 * hidden, 4)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        stack = []
        out = F.relu(F.normalize(self.conv1(x, edge_index), p=2, dim=1))
        stack.append(out)
        out = F.relu(F.normalize(self.conv2(out, edge_index), p=2, dim=1))
        stack.append(out)
        out = F.normalize(self.conv3(out, edge_index), p=2, dim=1)
        stack.append(out)
        return self.lin(torch.cat(stack, dim=1))


class ExplainerGraphGCN(nn.Module):
    """13: PGExplainer's graph classifier: maximum and mean, concatenated (Luo et al. 2020)."""

    def __init__(self, hidden: int = 10) -> None:
        super().__init__()
        self.conv1 = GCNConv(7, hidden)
        self.conv2 = GCNConv(hidden, hidden)
        self.conv3 = GCNConv(hidden, hidden)
        self.relu1, self.relu2, self.relu3 = ReLU(), ReLU(), ReLU()
        self.lin = Linear(2 * hidden, 2)

    def embedding(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out = self.relu1(self.conv1(x, edge_index))
        out = self.relu2(self.conv2(out, edge_index))
        return self.relu3(self.conv3(out, edge_index))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        if batch is None:
            batch = torch.zeros(x.size(0), dtype=torch.long)
        embed = self.embedding(x, edge_index)
        out1 = global_max_pool(embed, batch)
        out2 = global_mean_pool(embed, batch)
        return self.lin(torch.cat([out1, out2], dim=-1))


class TupleGCN(nn.Module):
    """14: GCFExplainer's GCN: returns node values, graph values and log-probabilities."""

    def __init__(self, hidden: int = 12) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            [GCNConv(7, hidden), GCNConv(hidden, hidden), GCNConv(hidden, hidden)]
        )
        self.lin1 = Linear(hidden, hidden)
        self.lin2 = Linear(hidden, 2)
        self.dropout = nn.Dropout(0.1)

    def forward(self, data: Data) -> tuple[Tensor, Tensor, Tensor]:
        x = data.x
        for i, conv in enumerate(self.convs):
            x = conv(x, data.edge_index)
            if i != len(self.convs) - 1:
                x = F.relu(x)
        node_embeddings = x
        graph_embedding = global_max_pool(node_embeddings, data.batch)
        out = F.relu(self.lin1(self.dropout(graph_embedding)))
        return node_embeddings, graph_embedding, F.log_softmax(self.lin2(out), dim=1)


class TableEncoder(nn.Module):
    """The sum of one embedding table per column, as OGB's AtomEncoder and BondEncoder."""

    def __init__(self, sizes: list[int], dim: int) -> None:
        super().__init__()
        self.embedding_list = nn.ModuleList(nn.Embedding(size, dim) for size in sizes)

    def forward(self, x: Tensor) -> Tensor:
        summed: Tensor | int = 0
        for i in range(x.shape[1]):
            summed = summed + self.embedding_list[i](x[:, i])
        assert isinstance(summed, Tensor)
        return summed


class MoleculeGIN(nn.Module):
    """15: OGB's GIN for molecules: embedded atoms and, in every layer, embedded bonds."""

    def __init__(self, dim: int = 8, layers: int = 3) -> None:
        super().__init__()
        self.atom_encoder = TableEncoder([9, 4, 6, 5], dim)
        self.bond_encoders = nn.ModuleList(TableEncoder([5, 6], dim) for _ in range(layers))
        self.convs = nn.ModuleList(
            GINEConv(
                Sequential(
                    Linear(dim, 2 * dim), BatchNorm1d(2 * dim), ReLU(), Linear(2 * dim, dim)
                ),
                train_eps=True,
            )
            for _ in range(layers)
        )
        self.norms = nn.ModuleList(BatchNorm1d(dim) for _ in range(layers))
        self.pool = global_mean_pool
        self.graph_pred_linear = Linear(dim, 2)

    def forward(self, batched_data: Data) -> Tensor:
        h = self.atom_encoder(batched_data.x)
        last = len(self.convs) - 1
        for layer, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            bonds = self.bond_encoders[layer](batched_data.edge_attr)
            h = norm(conv(h, batched_data.edge_index, bonds))
            h = F.dropout(h if layer == last else F.relu(h), 0.5, training=self.training)
        return self.graph_pred_linear(self.pool(h, batched_data.batch))


class VirtualNodeGCN(nn.Module):
    """16: OGB's GCN with a virtual node (Hu et al. 2020), on real features and GCNConv."""

    def __init__(self, dim: int = 8, layers: int = 3) -> None:
        super().__init__()
        self.encoder = Linear(7, dim)
        self.virtualnode_embedding = nn.Embedding(1, dim)
        self.convs = nn.ModuleList(GCNConv(dim, dim) for _ in range(layers))
        self.batch_norms = nn.ModuleList(BatchNorm1d(dim) for _ in range(layers))
        self.virtual_mlps = nn.ModuleList(
            Sequential(
                Linear(dim, 2 * dim), BatchNorm1d(2 * dim), ReLU(),
                Linear(2 * dim, dim), BatchNorm1d(dim), ReLU(),
            )
            for _ in range(layers - 1)
        )  # fmt: skip
        self.head = Linear(dim, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        virtual = self.virtualnode_embedding(
            torch.zeros(batch[-1].item() + 1).to(edge_index.dtype).to(edge_index.device)
        )
        h_list = [self.encoder(x)]
        for layer, conv in enumerate(self.convs):
            h_list[layer] = h_list[layer] + virtual[batch]
            h = self.batch_norms[layer](conv(h_list[layer], edge_index))
            if layer < len(self.convs) - 1:
                h = F.dropout(F.relu(h), 0.5, training=self.training)
                summed = global_add_pool(h_list[layer], batch) + virtual
                virtual = virtual + F.dropout(
                    self.virtual_mlps[layer](summed), 0.5, training=self.training
                )
            h_list.append(h + h_list[layer])
        return self.head(global_mean_pool(h_list[-1], batch))


class Polynomials(nn.Module):
    """17: TAGConv, then ChebConv."""

    def __init__(self) -> None:
        super().__init__()
        self.tag = TAGConv(7, 12, K=3)
        self.cheb = ChebConv(12, 12, K=3)
        self.lin = Linear(12, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x = torch.tanh(self.tag(x, edge_index))
        x = self.cheb(x, edge_index).sigmoid()
        return self.lin(global_add_pool(x, batch))
