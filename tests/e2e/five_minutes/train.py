"""Trains a small model of its own on MUTAG, as any PyG project would."""

import torch
from models import MutagNet
from store.molecules import mutag
from torch.nn.functional import cross_entropy
from torch_geometric.loader import DataLoader

torch.manual_seed(0)
dataset = mutag()
model = MutagNet()
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
for _ in range(30):
    for batch in DataLoader(dataset[38:], batch_size=32, shuffle=True):
        optimizer.zero_grad()
        cross_entropy(model(batch.x, batch.edge_index, batch.batch), batch.y).backward()
        optimizer.step()
model.eval()
