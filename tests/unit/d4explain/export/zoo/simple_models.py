"""Models 1 to 9 of the zoo: tutorials, PyG's own models, edge attributes and edge weights."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn import BatchNorm1d, Linear, ReLU, Sequential
from torch_geometric.data import Data
from torch_geometric.nn import (
    GCN,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GINEConv,
    GraphNorm,
    JumpingKnowledge,
    PNAConv,
    SAGEConv,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)


class TutorialGCN(nn.Module):
    """1: the graph classifier of PyG's tutorial."""

    def __init__(self, hidden_channels: int = 16) -> None:
        super().__init__()
        self.conv1 = GCNConv(7, hidden_channels)
        self.conv2 = GCNConv(hidden_channels, hidden_channels)
        self.conv3 = GCNConv(hidden_channels, hidden_channels)
        self.lin = Linear(hidden_channels, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x = self.conv1(x, edge_index)
        x = x.relu()
        x = self.conv2(x, edge_index)
        x = x.relu()
        x = self.conv3(x, edge_index)
        x = global_mean_pool(x, batch)
        x = F.dropout(x, p=0.5, training=self.training)
        return self.lin(x)


class PooledGIN(nn.Module):
    """2: GIN with a sum pool of every layer, concatenated (Xu et al. 2019)."""

    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.conv1 = GINConv(
            Sequential(Linear(7, dim), BatchNorm1d(dim), ReLU(), Linear(dim, dim), ReLU())
        )
        self.conv2 = GINConv(
            Sequential(Linear(dim, dim), BatchNorm1d(dim), ReLU(), Linear(dim, dim), ReLU())
        )
        self.conv3 = GINConv(
            Sequential(Linear(dim, dim), BatchNorm1d(dim), ReLU(), Linear(dim, dim), ReLU())
        )
        self.lin1 = Linear(dim * 3, dim * 3)
        self.lin2 = Linear(dim * 3, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        h1 = self.conv1(x, edge_index)
        h2 = self.conv2(h1, edge_index)
        h3 = self.conv3(h2, edge_index)
        h1 = global_add_pool(h1, batch)
        h2 = global_add_pool(h2, batch)
        h3 = global_add_pool(h3, batch)
        h = torch.cat((h1, h2, h3), dim=1)
        h = self.lin1(h)
        h = h.relu()
        h = F.dropout(h, p=0.5, training=self.training)
        return self.lin2(h)


class WrappedGCN(nn.Module):
    """3: torch_geometric.nn.GCN, a pool and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.gnn = GCN(7, 16, num_layers=3, dropout=0.2, jk="cat")
        self.classifier = Linear(16, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        h = self.gnn(x, edge_index)
        return self.classifier(global_mean_pool(h, batch))


class NodeGAT(nn.Module):
    """4: the GAT of PyG's Planetoid example."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = GATConv(7, 8, heads=4, dropout=0.6)
        self.conv2 = GATConv(8 * 4, 3, heads=1, concat=False, dropout=0.6)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = F.dropout(x, p=0.6, training=self.training)
        x = F.elu(self.conv1(x, edge_index))
        x = F.dropout(x, p=0.6, training=self.training)
        x = self.conv2(x, edge_index)
        return F.log_softmax(x, dim=-1)


class NodeSAGE(nn.Module):
    """5: the GraphSAGE of OGB's node property examples."""

    def __init__(self, layers: int = 3) -> None:
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(7, 16)])
        self.bns = nn.ModuleList([BatchNorm1d(16)])
        for _ in range(layers - 2):
            self.convs.append(SAGEConv(16, 16))
            self.bns.append(BatchNorm1d(16))
        self.convs.append(SAGEConv(16, 3))
        self.dropout = 0.5

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for i, conv in enumerate(self.convs[:-1]):
            x = conv(x, edge_index)
            x = self.bns[i](x)
            x = F.relu(x)
            x = F.dropout(x, p=self.dropout, training=self.training)
        x = self.convs[-1](x, edge_index)
        return x.log_softmax(dim=-1)


class JumpingGATv2(nn.Module):
    """6: GATv2, GraphNorm, jumping knowledge and two pools of a PyG batch."""

    def __init__(self, hidden: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.convs = nn.ModuleList()
        self.norms = nn.ModuleList()
        width = 7
        for _ in range(3):
            self.convs.append(GATv2Conv(width, hidden, heads=heads))
            self.norms.append(GraphNorm(hidden * heads))
            width = hidden * heads
        self.jump = JumpingKnowledge("cat")
        self.head = Sequential(Linear(2 * 3 * width, 16), ReLU(), nn.Dropout(0.3), Linear(16, 2))

    def forward(self, data: Data) -> Tensor:
        x, edge_index, batch = data.x, data.edge_index, data.batch
        xs = []
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = F.elu(norm(conv(x, edge_index), batch))
            xs.append(x)
        x = self.jump(xs)
        pooled = torch.cat([global_mean_pool(x, batch), global_max_pool(x, batch)], dim=-1)
        return self.head(pooled)


class BondGINE(nn.Module):
    """7: GINE that reads edge attributes, with an encoder for them."""

    def __init__(self, hidden: int = 12) -> None:
        super().__init__()
        self.node_encoder = Linear(7, hidden)
        self.edge_encoder = Linear(4, hidden)
        self.convs = nn.ModuleList()
        for _ in range(2):
            mlp = Sequential(Linear(hidden, hidden), ReLU(), Linear(hidden, hidden))
            self.convs.append(GINEConv(mlp, train_eps=True))
        self.last = GINEConv(Sequential(Linear(hidden, hidden), nn.Tanh()), edge_dim=4)
        self.out = Linear(hidden, 2)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor) -> Tensor:
        x = self.node_encoder(x)
        edges = self.edge_encoder(edge_attr)
        for conv in self.convs:
            x = conv(x, edge_index, edges).relu()
        x = self.last(x, edge_index, edge_attr)
        return self.out(global_add_pool(x, batch))


class ScaledPNA(nn.Module):
    """8: PNA with degree scalers (Corso et al. 2020)."""

    def __init__(self) -> None:
        super().__init__()
        options: dict[str, Any] = {
            "aggregators": ["mean", "min", "max", "std"],
            "scalers": ["identity", "amplification", "attenuation"],
            "deg": torch.tensor([1, 4, 6, 3, 1]),
            "towers": 2,
        }
        self.embed = Linear(7, 8)
        self.convs = nn.ModuleList([PNAConv(8, 8, divide_input=False, **options) for _ in range(2)])
        self.norms = nn.ModuleList([BatchNorm1d(8) for _ in range(2)])
        self.mlp = Sequential(Linear(8, 6), ReLU(), Linear(6, 2))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x = self.embed(x)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = F.relu(norm(conv(x, edge_index)))
        return self.mlp(global_add_pool(x, batch))


class WeightedGCN(nn.Module):
    """9: a GCN that takes and uses edge weights."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = GCNConv(7, 16)
        self.conv2 = GCNConv(16, 16)
        self.lin = Linear(16, 2)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor, batch: Tensor) -> Tensor:
        x = self.conv1(x, edge_index, edge_weight).relu()
        x = self.conv2(x, edge_index, edge_weight=edge_weight).relu()
        return self.lin(global_mean_pool(x, batch))
