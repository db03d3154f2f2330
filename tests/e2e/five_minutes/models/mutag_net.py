import torch
from torch import nn
from torch_geometric.nn import GINConv, global_add_pool, global_max_pool


class MutagNet(nn.Module):
    def __init__(self, features: int = 7, hidden: int = 32, classes: int = 2) -> None:
        super().__init__()
        widths = [features, hidden, hidden]
        self.convs = nn.ModuleList(
            GINConv(nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden)))
            for width in widths
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden) for _ in widths)
        self.head = nn.Linear(2 * hidden, classes)

    def forward(self, x, edge_index, batch):
        for conv, norm in zip(self.convs, self.norms, strict=True):
            out = norm(conv(x, edge_index)).relu()
            x = out if out.shape != x.shape else x + out
        pooled = torch.cat([global_add_pool(x, batch), global_max_pool(x, batch)], dim=1)
        return self.head(nn.functional.dropout(pooled, p=0.3, training=self.training))
