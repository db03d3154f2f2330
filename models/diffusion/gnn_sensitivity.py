"""Effects of single toggles on the GNN's logits; the denoiser's effect head learns them."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs
from d4explain.gnn.network import Gnn


class Sensitivity(NamedTuple):
    """Logits, slopes and node states of a batch of graphs, from one forward pass of the GNN."""

    logits: Tensor  # [batch, class]
    slopes: Tensor  # [class, batch, node, node] first-order effects of toggles on the logits
    states: Tensor  # [batch, node, width] output of the convolutions
    backward_passes: int = 0  # for the slopes, each over the whole batch

    def select(self, part: slice) -> Sensitivity:
        return self._replace(
            logits=self.logits[part], slopes=self.slopes[:, part], states=self.states[part]
        )


class Toggles(NamedTuple):
    """Single toggled pairs of the graphs of a batch."""

    graph: Tensor  # [toggle] int64, position in the batch
    source: Tensor  # [toggle] int64
    target: Tensor  # [toggle] int64

    def within(self, part: slice) -> tuple[Toggles, Tensor]:
        """The toggles of a range of graphs, numbered from its start, and their mask: [toggle]."""
        inside = (self.graph >= part.start) & (self.graph < part.stop)
        graph, source, target = (values[inside] for values in self)
        return Toggles(graph - part.start, source, target), inside

    def of(self, values: Tensor) -> Tensor:
        """The entries of [class, batch, node, node] values at the toggles: [toggle, class]."""
        return values[:, self.graph, self.source, self.target].T


def drawn_toggles(
    graphs: DenseGraphs, allowed: Tensor, per_kind: int, generator: torch.Generator
) -> Toggles:
    """Draws up to `per_kind` edges and as many absent pairs of each graph's allowed pairs."""
    upper = torch.triu(allowed.cpu(), diagonal=1).flatten(1)  # [batch, pair]
    present = (graphs.adjacency.cpu() > 0.5).flatten(1)
    order = torch.rand(upper.shape, generator=generator)
    chosen = []
    for kind in (upper & present, upper & ~present):
        ranked = torch.where(kind, order, torch.inf)
        count = min(per_kind, ranked.shape[1])
        values, places = ranked.topk(count, dim=1, largest=False)
        row, column = (values < torch.inf).nonzero(as_tuple=True)
        chosen.append(torch.stack([row, places[row, column]]))
    row, place = torch.cat(chosen, dim=1)
    nodes = graphs.mask.shape[1]
    toggles = Toggles(row, place // nodes, place % nodes)
    return Toggles(*(part.to(graphs.adjacency.device) for part in toggles))


def logit_changes(gnn: Gnn, graphs: DenseGraphs, toggles: Toggles) -> Tensor:
    """Change of the logits by each toggle, centred over the classes: [toggle, class]."""
    with torch.no_grad():
        before = gnn.answers(graphs)  # [batch, class]
        after = graphs.select(toggles.graph)
        adjacency = after.adjacency.clone()
        place = torch.arange(len(toggles.graph), device=adjacency.device)
        toggled = 1 - adjacency[place, toggles.source, toggles.target]
        adjacency[place, toggles.source, toggles.target] = toggled
        adjacency[place, toggles.target, toggles.source] = toggled
        change = gnn.answers(after.with_adjacency(adjacency)) - before[toggles.graph]
    return change - change.mean(dim=1, keepdim=True)


def gnn_sensitivity(gnn: Gnn, graphs: DenseGraphs) -> Sensitivity:
    """Runs one forward pass, and one backward pass per class but the last.

    A GNN without a dense form has no gradients, so its slopes are 0.
    """
    if not gnn.has_dense:
        with torch.no_grad():
            logits, states = gnn.sparse_states(graphs)
        return Sensitivity(
            logits, graphs.adjacency.new_zeros(logits.shape[1], *graphs.adjacency.shape), states
        )
    with torch.inference_mode(mode=False), torch.enable_grad():
        adjacency = graphs.adjacency.clone().requires_grad_()
        logits, states = gnn.dense_states(graphs.with_adjacency(adjacency))
        centred = (logits - logits.mean(dim=1, keepdim=True)).sum(dim=0)  # [class]
        by_class = [toggle_slopes(one, adjacency) for one in centred[:-1]]
    # The mean over classes is 0, so the last class follows from the others.
    slopes = torch.stack([*by_class, -torch.stack(by_class).sum(dim=0)])
    passes = len(by_class) if logits.requires_grad else 0
    return Sensitivity(logits.detach(), slopes, states.detach(), passes)


def toggle_slopes(value: Tensor, adjacency: Tensor) -> Tensor:
    """First-order effect of each undirected toggle on a number: [batch, node, node]."""
    if not value.requires_grad:
        return torch.zeros_like(adjacency)  # a GNN that reads no edges
    (slope,) = torch.autograd.grad(
        value, adjacency, retain_graph=True, allow_unused=True, materialize_grads=True
    )
    # An undirected edge is two entries of the adjacency.
    return (slope + slope.mT) * (1 - 2 * adjacency.detach())


def effect_loss(predicted: Tensor, change: Tensor, scale: Tensor) -> Tensor:
    """Smooth L1 distance of predicted changes, in units of the scale, from true ones: [toggle].

    It is linear beyond one unit, so that large effects do not dominate the loss.
    """
    return F.smooth_l1_loss(predicted, change / scale, reduction="none").mean(dim=1)
