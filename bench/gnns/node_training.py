"""Train a node classifier on a single graph."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.data.node_tasks import NodeData
from bench.gnns.training import EpochReport, TrainedGnn, Training
from d4explain.gnn.graphs import SparseGraphs, to_sparse
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import GnnSpec


def train_node_classifier(
    spec: GnnSpec,
    data: NodeData,
    training: Training,
    seed: int,
    on_epoch: Callable[[EpochReport], None],
) -> TrainedGnn:
    """Train with one full-batch step per epoch; return the best epoch on validation nodes.

    Best means highest accuracy, then lowest loss. The GNN sees features and edges of the other
    nodes, but not their labels.
    """
    started = time.process_time()  # other load does not shorten the training
    graphs = to_sparse([data.graph])
    labels = data.labels[data.train]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # initial weights and dropout use torch's global generator
        gnn = Gnn(spec)
        # Adam with L2 decay instead of AdamW: most of the 1,703 words occur on few training pages,
        # and their weights must vanish.
        optimizer = torch.optim.Adam(
            gnn.parameters(), training.learning_rate, weight_decay=training.weight_decay
        )
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, training.learning_rate, total_steps=training.epochs
        )
        best: tuple[float, float] | None = None
        result = gnn
        for epoch in range(1, training.epochs + 1):
            logits = gnn.train().node_logits(graphs)[data.train]  # [training node, class]
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()
            score = _score(gnn.eval(), graphs, data.validation, data.labels)
            if best is None or score > best:
                best, result = score, copy.deepcopy(gnn)
            accuracy = float((logits.argmax(dim=1) == labels).double().mean())
            on_epoch(EpochReport(epoch, training.epochs, float(loss.detach()), accuracy, best[0]))
            if time.process_time() - started > training.seconds:
                break
    return TrainedGnn(result.eval(), epoch)


def node_accuracy(gnn: Gnn, data: NodeData, nodes: Tensor) -> float:
    return _score(gnn, to_sparse([data.graph]), nodes, data.labels)[0]


def _score(gnn: Gnn, graphs: SparseGraphs, nodes: Tensor, labels: Tensor) -> tuple[float, float]:
    """Accuracy and log-likelihood of the labels, in the GNN's current mode."""
    with torch.inference_mode():
        logits = gnn.node_logits(graphs)[nodes]
    accuracy = (logits.argmax(dim=1) == labels[nodes]).double().mean()
    return float(accuracy), -float(F.cross_entropy(logits, labels[nodes]))
