"""XGNN: a policy, trained by reinforcement, adds edges and nodes until the GNN is sure.

Yuan et al., "XGNN: Towards Model-Level Explanations of Graph Neural Networks", KDD 2020. A state
is a graph; an action picks a start node, then an end node among the other nodes and the candidates,
one per node type. The reward of a step is p(class | G_{t+1}) − 1/classes, plus the same of the
final graph. Episodes of one batch build their graphs side by side, so the rest of an episode is its
own rollout. Instead of a penalty for degrees that no node of the type has, such actions are
excluded. The mean reward of the batch is the baseline.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from d4explain.gnn.graphs import DenseGraphs, Graph, from_dense
from d4explain.gnn.network import Gnn
from models.classes.alone.hill_climbing import log_confidence

UPDATES = 60
EPISODES = 32  # of one update
_MOST_TYPES = 16
_HIDDEN = 32
_LEARNING_RATE = 0.01


@dataclass(frozen=True)
class NodeKinds:
    """The node types that a graph may have, and their largest degrees in the class."""

    features: Tensor  # [type, feature]
    largest_degree: Tensor  # [type]

    @staticmethod
    def of(graphs: list[Graph], generator: torch.Generator) -> NodeKinds:
        """Distinct rows of features; 16 random rows if there are more, as measurements have."""
        rows = torch.cat([graph.features for graph in graphs])
        degrees = torch.cat(
            [torch.bincount(graph.edges.flatten(), minlength=graph.node_count) for graph in graphs]
        )
        kinds, kind = torch.unique(rows, dim=0, return_inverse=True)
        if len(kinds) > _MOST_TYPES:
            chosen = torch.randperm(len(kinds), generator=generator)[:_MOST_TYPES]
            return NodeKinds(kinds[chosen], degrees.max().expand(_MOST_TYPES))
        largest = torch.zeros(len(kinds), dtype=torch.long)
        return NodeKinds(kinds, largest.scatter_reduce(0, kind, degrees, "amax"))


class _Policy(nn.Module):
    """Three graph convolutions; scores of start nodes, and of end nodes given the start."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(width, _HIDDEN) for width in (features, _HIDDEN, _HIDDEN)
        )
        self.start = nn.Linear(_HIDDEN, 1)
        self.end = nn.Sequential(nn.Linear(2 * _HIDDEN, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, 1))

    def states(self, adjacency: Tensor, features: Tensor) -> Tensor:
        """[batch, node, hidden] of nodes and candidates; candidates have no edges."""
        own = adjacency + torch.eye(adjacency.shape[1])
        scale = own.sum(dim=2).rsqrt()
        own = scale[:, :, None] * own * scale[:, None, :]
        for layer in self.layers:
            features = torch.relu(own @ layer(features))
        return features


def generate(
    gnn: Gnn,
    label: int,
    kinds: NodeKinds,
    *,
    nodes: int,
    count: int,
    marked: bool,
    generator: torch.Generator,
    device: torch.device,
    should_stop: Callable[[], bool],
    updates: int = UPDATES,
) -> list[Graph]:
    """`count` graphs drawn from the trained policy; `marked` marks the first node."""
    with torch.random.fork_rng(devices=[]), torch.inference_mode(mode=False), torch.enable_grad():
        torch.manual_seed(int(torch.randint(2**31, (1,), generator=generator)))
        policy = _Policy(kinds.features.shape[1])
        optimizer = torch.optim.Adam(policy.parameters(), lr=_LEARNING_RATE)
        episodes = _Episodes(gnn, label, kinds, nodes, marked=marked, device=device)
        for _ in range(updates):
            if should_stop():
                break
            _, loss = episodes.run(policy, EPISODES, generator)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        final, _ = episodes.run(policy, count, generator)
    return from_dense(final)


class _Episodes:
    """Builds graphs of up to `nodes` nodes side by side."""

    def __init__(
        self,
        gnn: Gnn,
        label: int,
        kinds: NodeKinds,
        nodes: int,
        *,
        marked: bool,
        device: torch.device,
    ) -> None:
        self._gnn = gnn
        self._label = label
        self._kinds = kinds
        self._nodes = nodes
        self._marked = marked
        self._device = device
        self._steps = nodes - 1 + nodes // 2  # edges: a tree and some more

    def run(
        self, policy: _Policy, count: int, generator: torch.Generator
    ) -> tuple[DenseGraphs, Tensor]:
        """The final graphs, and the policy's loss on their episodes."""
        nodes, types = self._nodes, len(self._kinds.features)
        rows = torch.arange(count)
        adjacency = torch.zeros(count, nodes, nodes)
        kind = torch.randint(types, (count, nodes), generator=generator)  # of later nodes: unused
        size = torch.ones(count, dtype=torch.long)
        log_chances, rewards, acted = [], [], []
        for step in range(self._steps):
            must_grow = nodes - size >= self._steps - step  # as many nodes as steps are left
            allowed = self._allowed(adjacency, kind, size, must_grow)  # [batch, start, end]
            active = allowed.flatten(1).any(dim=1)
            states = policy.states(*self._with_candidates(adjacency, kind, size))
            start, start_log = _drawn(
                policy.start(states[:, :nodes])[:, :, 0], allowed.any(dim=2), active, generator
            )
            own = states[rows, start][:, None].expand_as(states)
            end, end_log = _drawn(
                policy.end(torch.cat([states, own], dim=2))[:, :, 0],
                allowed[rows, start],
                active,
                generator,
            )
            grows = active & (end >= nodes)
            kind[rows[grows], size[grows]] = end[grows] - nodes
            target = torch.where(end >= nodes, size, end)
            size = size + grows.long()
            adjacency = adjacency.clone()
            adjacency[rows[active], start[active], target[active]] = 1
            adjacency[rows[active], target[active], start[active]] = 1
            log_chances.append(start_log + end_log)
            acted.append(active)
            rewards.append(self._gain(self._graphs(adjacency, kind, size)))
        final = self._graphs(adjacency, kind, size)
        if not rewards:
            return final, torch.zeros((), requires_grad=True)
        total = torch.stack(rewards) + rewards[-1]  # [step, batch]
        mask = torch.stack(acted).float()
        advantage = total - (total * mask).sum() / mask.sum().clamp(min=1)
        loss = -(advantage * torch.stack(log_chances) * mask).sum() / mask.sum().clamp(min=1)
        return final, loss

    def _allowed(self, adjacency: Tensor, kind: Tensor, size: Tensor, must_grow: Tensor) -> Tensor:
        """Which (start, end) pairs the degrees and the sizes allow: [batch, node, node + type]."""
        nodes, types = self._nodes, len(self._kinds.features)
        exists = torch.arange(nodes) < size[:, None]
        free = exists & (adjacency.sum(dim=2) < self._kinds.largest_degree[kind])
        between = free[:, :, None] & free[:, None, :] & (adjacency == 0)
        between &= ~torch.eye(nodes, dtype=torch.bool) & ~must_grow[:, None, None]
        new = free[:, :, None] & (size < nodes)[:, None, None]
        new = new & (self._kinds.largest_degree > 0)
        return torch.cat([between, new.expand(-1, -1, types)], dim=2)

    def _with_candidates(
        self, adjacency: Tensor, kind: Tensor, size: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Adjacency and features of the nodes and of one candidate per type."""
        count, types = len(adjacency), len(self._kinds.features)
        width = self._nodes + types
        whole = adjacency.new_zeros(count, width, width)
        whole[:, : self._nodes, : self._nodes] = adjacency
        exists = torch.arange(self._nodes) < size[:, None]
        own = self._kinds.features[kind] * exists[:, :, None]
        return whole, torch.cat([own, self._kinds.features.expand(count, -1, -1)], dim=1)

    def _graphs(self, adjacency: Tensor, kind: Tensor, size: Tensor) -> DenseGraphs:
        mask = torch.arange(self._nodes) < size[:, None]
        targets = torch.zeros(len(size), dtype=torch.long) if self._marked else None
        features = self._kinds.features[kind] * mask[:, :, None]
        return DenseGraphs(adjacency, features, mask, targets)

    def _gain(self, graphs: DenseGraphs) -> Tensor:
        """p(class) − 1/classes of each graph: [batch]."""
        confidence = log_confidence(self._gnn, self._label, graphs, self._device).exp()
        return confidence.clone() - 1 / self._gnn.spec.classes


def _drawn(
    scores: Tensor, allowed: Tensor, active: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """A draw of each row, and its log-probability; rows that are not active get 0 and 0."""
    safe = allowed | ~active[:, None]
    chances = scores.masked_fill(~safe, -torch.inf).log_softmax(dim=1)
    choice = torch.multinomial(chances.exp().detach(), 1, generator=generator)[:, 0]
    own = chances[torch.arange(len(choice)), choice]
    return torch.where(active, choice, 0), torch.where(active, own, torch.zeros_like(own))
