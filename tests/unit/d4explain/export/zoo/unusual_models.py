"""Models 18 to 25 of the zoo: other pools, several heads, dense connections, arithmetic."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn import BatchNorm1d, Linear, ReLU, Sequential
from torch_geometric.nn import (
    APPNP,
    AttentionalAggregation,
    GCNConv,
    GraphConv,
    SAGPooling,
    Set2Set,
    SGConv,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.utils import degree


class AttentionPooled(nn.Module):
    """18: GraphConv with attentional pooling (Li et al. 2016), gate and values by MLPs."""

    def __init__(self, dim: int = 12) -> None:
        super().__init__()
        self.conv1 = GraphConv(7, dim)
        self.conv2 = GraphConv(dim, dim)
        self.pool = AttentionalAggregation(
            gate_nn=Sequential(Linear(dim, dim), ReLU(), Linear(dim, 1)),
            nn=Sequential(Linear(dim, 2 * dim), ReLU()),
        )
        self.lin = Linear(2 * dim, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x = F.relu(self.conv1(x, edge_index))
        x = F.relu(self.conv2(x, edge_index))
        return self.lin(self.pool(x, batch))


class SetPooled(nn.Module):
    """19: Set2Set pooling (Vinyals et al. 2016), an LSTM over the nodes."""

    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.conv = GCNConv(7, dim)
        self.set2set = Set2Set(dim, processing_steps=3)
        self.lin = Linear(2 * dim, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x = F.relu(self.conv(x, edge_index))
        x = self.set2set(x, batch)
        return self.lin(x)


class HierarchicalPooled(nn.Module):
    """20: SAGPool (Lee et al. 2019), which drops nodes after each layer."""

    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.conv1 = GCNConv(7, dim)
        self.pool1 = SAGPooling(dim, ratio=0.5)
        self.conv2 = GCNConv(dim, dim)
        self.lin = Linear(dim, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x = F.relu(self.conv1(x, edge_index))
        x, edge_index, _, batch, _, _ = self.pool1(x, edge_index, None, batch)
        x = F.relu(self.conv2(x, edge_index))
        return self.lin(global_mean_pool(x, batch))


class Propagated(nn.Module):
    """21: SGC (Wu et al. 2019), then APPNP (Gasteiger et al. 2019), for nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.sgc = SGConv(7, 12, K=2)
        self.lin = Linear(12, 3)
        self.prop = APPNP(K=5, alpha=0.1, dropout=0.2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        x = F.relu(self.sgc(x, edge_index))
        x = F.dropout(x, p=0.5, training=self.training)
        x = self.prop(self.lin(x), edge_index)
        return F.log_softmax(x, dim=1)


class TwoHeads(nn.Module):
    """22: one head for the class, one for a number."""

    def __init__(self, dim: int = 12) -> None:
        super().__init__()
        self.conv1 = GCNConv(7, dim)
        self.conv2 = GCNConv(dim, dim)
        self.label_head = Linear(dim, 3)
        self.energy_head = Sequential(Linear(dim, dim), ReLU(), Linear(dim, 1))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> dict[str, Tensor]:
        x = self.conv2(self.conv1(x, edge_index).relu(), edge_index).relu()
        g = global_mean_pool(x, batch)
        return {"energy": self.energy_head(g), "label": self.label_head(g)}


class DenselyConnected(nn.Module):
    """23: every layer reads all layers before it, as in DenseNet."""

    def __init__(self, growth: int = 6, depth: int = 3) -> None:
        super().__init__()
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        for i in range(depth):
            self.convs.append(GraphConv(7 + i * growth, growth))
            self.norms.append(BatchNorm1d(growth))
        self.lin = Linear(7 + depth * growth, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        feats = [x]
        for conv, norm in zip(self.convs, self.norms, strict=True):
            h = torch.cat(feats, dim=1)
            feats.append(F.leaky_relu(norm(conv(h, edge_index)), 0.1))
        return self.lin(global_max_pool(torch.cat(feats, dim=1), batch))


class Arithmetic(nn.Module):
    """24: normalised rows, constants, a trained scale and a division by degree + 1."""

    def __init__(self, dim: int = 12) -> None:
        super().__init__()
        self.lin_in = Linear(7, dim)
        self.conv = GraphConv(dim, dim)
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, dim))
        self.lin = Linear(2 * dim, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        deg = degree(edge_index[0], x.size(0), dtype=x.dtype).unsqueeze(-1)
        h = F.normalize(self.lin_in(x), p=2.0, dim=-1)
        h = 0.5 * h + 0.1
        h = (1 - h) * self.scale - self.conv(h, edge_index) / (deg + 1)
        g = global_add_pool(h, batch) / 10.0
        return self.lin(torch.cat([g, global_max_pool(h, batch)], dim=1))


class BinaryLogit(nn.Module):
    """25: one logit per graph, squeezed for BCEWithLogitsLoss."""

    def __init__(self, dim: int = 12) -> None:
        super().__init__()
        self.conv1 = GCNConv(7, dim)
        self.conv2 = GCNConv(dim, dim)
        self.fc = Linear(dim, 1)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x = F.relu(self.conv1(x, edge_index))
        x = F.relu(self.conv2(x, edge_index))
        return self.fc(global_mean_pool(x, batch)).squeeze(-1)
