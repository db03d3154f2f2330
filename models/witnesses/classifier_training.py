"""Trains a graph or node classifier on labelled graphs."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from d4explain.gnn.graphs import Graph, SparseGraphs, to_sparse
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import GnnSpec

CPU = torch.device("cpu")
_GRADIENT_NORM = 1.0
_WARM_UP = 0.3  # share of the steps in which the learning rate rises
_MIN_LIKELIHOOD_GAIN = 0.01  # smallest gain that counts, in nats per validation graph


class LabelledGraphs(NamedTuple):
    graphs: list[Graph]
    labels: Tensor  # [graph] int64

    def select(self, index: Tensor) -> LabelledGraphs:
        return LabelledGraphs([self.graphs[i] for i in index.tolist()], self.labels[index])


@dataclass(frozen=True)
class Training:
    epochs: int = 40
    batch: int = 64
    learning_rate: float = 5e-3
    weight_decay: float = 1e-2
    # Without edge noise, a few random edits break 3–7 % of the predictions of a GNN that is always
    # right on clean graphs. Its counterfactuals show this brittleness instead of the motifs.
    noisy_share: float = 0.5  # share of noisy graphs in a batch
    edge_noise: float = 0.1  # maximum edits of a noisy graph / its edges
    seconds: float = 30.0  # of CPU time; an epoch that has begun ends
    ema: float = 0.0  # decay of the weight average per step; 0 disables it
    patience: int = 0  # steps without a gain on validation graphs; 0 disables early stopping


@dataclass(frozen=True)
class EpochReport:
    epoch: int
    epochs: int
    loss: float
    accuracy: float  # on training graphs, with edge noise and dropout
    best_validation: float | None  # best validation accuracy so far


class TrainedGnn(NamedTuple):
    gnn: Gnn  # in eval mode
    epochs: int  # fewer than planned after a plateau or at the time limit


def train(
    spec: GnnSpec,
    data: LabelledGraphs,
    training: Training,
    seed: int,
    on_epoch: Callable[[EpochReport], None],
    *,
    validation: LabelledGraphs | None = None,
    device: torch.device = CPU,
) -> TrainedGnn:
    """Train until the last epoch, the time limit or a plateau on validation graphs.

    With validation graphs, return the best epoch: highest accuracy, then lowest loss.
    """
    started = time.process_time()  # other load does not shorten the training
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)  # initial weights and dropout use torch's global generator
        gnn = Gnn(spec).to(device)
        average = _WeightAverage(gnn, training.ema)
        optimizer = torch.optim.AdamW(
            gnn.parameters(),
            training.learning_rate,
            weight_decay=training.weight_decay,
            fused=True,
        )
        batches = -(-len(data.graphs) // training.batch)
        steps = training.epochs * batches
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, training.learning_rate, total_steps=steps, pct_start=_WARM_UP
        )
        plateau = _Plateau(training.patience, first_step=_WARM_UP * steps)
        best: _Score | None = None
        best_weights: dict[str, Tensor] = {}
        for epoch in range(1, training.epochs + 1):
            total_loss, correct = 0.0, 0
            for index in _shuffled_batches(data.graphs, training.batch, generator):
                graphs = to_sparse([data.graphs[i] for i in index.tolist()])
                if training.noisy_share > 0:
                    graphs = with_edge_noise(
                        graphs, training.edge_noise, generator, noisy_share=training.noisy_share
                    )
                labels = data.labels[index].to(device)
                logits = gnn(graphs.to(device))  # [graph, class]
                loss = F.cross_entropy(logits, labels)
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                torch.nn.utils.clip_grad_norm_(gnn.parameters(), _GRADIENT_NORM)
                optimizer.step()
                schedule.step()
                average.update()
                total_loss += float(loss.detach()) * graphs.count
                correct += int((logits.argmax(dim=1) == labels).sum())
            count = len(data.graphs)
            if validation is not None:
                score = _score(average.gnn, validation, device)
                plateau.measured(score, step=epoch * batches)
                if best is None or score > best:
                    weights = average.gnn.state_dict()
                    best = score
                    best_weights = {name: value.clone() for name, value in weights.items()}
            on_epoch(
                EpochReport(
                    epoch,
                    training.epochs,
                    total_loss / count,
                    correct / count,
                    best.accuracy if best else None,
                )
            )
            if plateau.reached or time.process_time() - started > training.seconds:
                break
        if best is not None:
            average.gnn.load_state_dict(best_weights)
    return TrainedGnn(average.gnn.eval(), epoch)


class _Score(NamedTuple):
    """Of a network on validation graphs; scores compare by accuracy first."""

    accuracy: float
    log_likelihood: float  # of the labels, per graph


class _Plateau:
    """Tells when neither accuracy nor log-likelihood has gained anything for `patience` steps.

    Steps before `first_step`, while the learning rate rises, do not count.
    """

    def __init__(self, patience: int, first_step: float) -> None:
        self._patience = patience
        self._last_gain = first_step
        self._accuracy = self._log_likelihood = -math.inf  # of the last gain
        self.reached = False

    def measured(self, score: _Score, step: int) -> None:
        is_likelier = score.log_likelihood > self._log_likelihood + _MIN_LIKELIHOOD_GAIN
        if is_likelier or score.accuracy > self._accuracy:
            self._last_gain = max(self._last_gain, step)
        if is_likelier:
            self._log_likelihood = score.log_likelihood
        self._accuracy = max(self._accuracy, score.accuracy)
        self.reached = 0 < self._patience <= step - self._last_gain


class _WeightAverage:
    """An exponential moving average of weights and of batch norm's statistics."""

    def __init__(self, gnn: Gnn, decay: float) -> None:
        self.gnn = copy.deepcopy(gnn) if decay else gnn
        self._decay = decay
        self._steps = 0
        # The tensors are the same at every step, which changes them in place.
        own, current = self.gnn.state_dict(), gnn.state_dict()
        averaged = [name for name, value in own.items() if value.is_floating_point()]
        self._averages = [own[name] for name in averaged]
        self._current = [current[name] for name in averaged]
        # Batch norm counts its batches.
        self._counts = [(own[name], current[name]) for name in own if name not in averaged]

    def update(self) -> None:
        if not self._decay:
            return
        self._steps += 1
        # A lower decay at first, because early weights are far from the result.
        decay = min(self._decay, self._steps / (self._steps + 10))
        torch._foreach_lerp_(self._averages, self._current, 1 - decay)
        for average, current in self._counts:
            average.copy_(current)


def _score(gnn: Gnn, validation: LabelledGraphs, device: torch.device) -> _Score:
    probabilities = predict(gnn, validation.graphs, device)  # [graph, class]
    accuracy = (probabilities.argmax(dim=1) == validation.labels).double().mean()
    likelihood = probabilities.gather(1, validation.labels[:, None]).clamp(min=1e-9).log().mean()
    return _Score(float(accuracy), float(likelihood))


def with_edge_noise(
    graphs: SparseGraphs, share: float, generator: torch.Generator, *, noisy_share: float = 1.0
) -> SparseGraphs:
    """Apply 1 to `share`·|E| random edits, additions and removals mixed, to some graphs.

    All graphs of the batch at once: a loop over graphs takes a third of a training step.
    """
    if graphs.edge_attributes is not None:
        raise ValueError("edge noise is not defined for edges with attributes")
    count, nodes_of_all = graphs.count, len(graphs.graph_of_node)
    edges = graphs.edge_index[:, : graphs.edge_index.shape[1] // 2]  # each edge once
    graph_of_edge = graphs.graph_of_node[edges[0]]
    node_counts = torch.bincount(graphs.graph_of_node, minlength=count)
    edge_counts = torch.bincount(graph_of_edge, minlength=count)

    def below(limit: Tensor) -> Tensor:
        """A random integer from 0 to limit - 1 for each entry."""
        return (torch.rand(limit.shape, generator=generator, dtype=torch.double) * limit).long()

    is_noisy = torch.rand(count, generator=generator) < noisy_share
    edits = (1 + below((share * edge_counts).long().clamp(min=1))) * is_noisy
    removals = below(edits + 1)

    keys = torch.rand(edges.shape[1], generator=generator, dtype=torch.double)
    order = (graph_of_edge + keys).argsort()  # the edges of each graph, shuffled
    first = torch.cumsum(edge_counts, 0) - edge_counts
    rank = torch.arange(len(order)) - first[graph_of_edge[order]]
    kept = order[rank >= removals[graph_of_edge[order]]]

    graph_of_addition = torch.repeat_interleave(edits - removals)
    sizes = node_counts[graph_of_addition]
    first_node = (torch.cumsum(node_counts, 0) - node_counts)[graph_of_addition]
    added = (first_node + below(sizes.expand(2, -1))).sort(dim=0).values
    edges = torch.cat([edges[:, kept], added[:, added[0] != added[1]]], dim=1)
    # One number per pair: sorting numbers is several times faster than sorting columns.
    codes = torch.unique(edges[0] * nodes_of_all + edges[1])
    edges = torch.stack([codes // nodes_of_all, codes % nodes_of_all])
    return replace(graphs, edge_index=torch.cat([edges, edges.flip(0)], dim=1))


def _shuffled_batches(
    graphs: Sequence[Graph], size: int, generator: torch.Generator
) -> list[Tensor]:
    order = torch.randperm(len(graphs), generator=generator)
    batches = [order[start : start + size] for start in range(0, len(graphs), size)]
    *before, last = batches
    if before and sum(graphs[i].node_count for i in last.tolist()) == 1:
        # Batch norm needs more than one node.
        return [*before[:-1], torch.cat([before[-1], last])]
    return batches


def accuracy(gnn: Gnn, graphs: Sequence[Graph], labels: Tensor) -> float:
    return float((predict(gnn, graphs, CPU).argmax(dim=1) == labels).double().mean())
