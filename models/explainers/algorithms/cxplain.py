"""CXPlain: a network learns, over many graphs, how much each edge's removal costs.

Schwab and Karlen, "CXPlain: Causal Explanations for Model Interpretation under Uncertainty",
NeurIPS 2019. Without edge e the loss of the predicted class rises by Δ_e; the target of the network
is ω_e = max(Δ_e, 0) / Σ max(Δ, 0), and its loss is the Kullback-Leibler divergence KL(ω || output).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from d4explain.gnn.graphs import Graph, to_dense
from d4explain.gnn.network import Gnn, predict
from models.counterfactual.oracle import CounterfactualOracle, FlipGoal, StoppedError
from models.errors import NothingToLearnError
from models.explainers.interface import EdgeScores, seeded
from models.graphs.edits import EditRules, EditSpace

EPOCHS = 200
GRAPHS = 100  # reference graphs of the training
_HIDDEN = 64
_LEARNING_RATE = 3e-3
_LEAST = 1e-4  # log-probability; below it, no edge of the graph matters


@dataclass(frozen=True)
class _Example:
    inputs: Tensor  # [edge, width]
    omega: Tensor  # [edge], sums to 1


class CxPlain:
    """An edge's inputs are its ends' features and node states, and the marked node's."""

    def __init__(self, network: nn.Module) -> None:
        self._network = network.eval()

    @staticmethod
    def train(
        gnn: Gnn,
        graphs: Sequence[Graph],
        generator: torch.Generator,
        *,
        device: torch.device,
        epochs: int = EPOCHS,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> CxPlain:
        """Learns from the graphs in which the removal of an edge costs probability."""
        examples = []
        for graph in graphs:
            if graph.edge_count:
                omega = removal_costs(gnn, graph, device, should_stop)
                if float(omega.sum()) > _LEAST:
                    examples.append(_Example(_inputs(gnn, graph, device), omega / omega.sum()))
        if not examples:
            raise NothingToLearnError(
                "cxplain", len(graphs), "no removal of one edge lowers a predicted probability"
            )
        inputs = torch.cat([one.inputs for one in examples])
        omega = torch.cat([one.omega for one in examples])
        graph_of_edge = torch.repeat_interleave(
            torch.arange(len(examples)), torch.tensor([len(one.omega) for one in examples])
        )
        with torch.inference_mode(mode=False), torch.enable_grad():
            network = _network(inputs, generator)
            optimizer = torch.optim.Adam(network.parameters(), lr=_LEARNING_RATE)
            for _ in range(epochs):
                if should_stop():
                    raise StoppedError
                scores = network(inputs)[:, 0]  # [edge of all graphs]
                loss = -(omega * _log_softmax(scores, graph_of_edge)).sum() / len(examples)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        return CxPlain(network)

    def explain(self, oracle: CounterfactualOracle, generator: torch.Generator) -> EdgeScores:
        with torch.no_grad():
            scores = self._network(_inputs(oracle.gnn, oracle.space.graph, oracle.device))
        oracle.evaluations += 1
        return EdgeScores(scores[:, 0].softmax(dim=0))


def removal_costs(
    gnn: Gnn, graph: Graph, device: torch.device, should_stop: Callable[[], bool]
) -> Tensor:
    """max(Δ, 0) of each edge: the loss of log-probability of the predicted class [edge]."""
    before = predict(gnn, [graph], device)[0]
    predicted = int(before.argmax())
    space = EditSpace.of(graph, EditRules(max_ratio=1, add=False))
    oracle = CounterfactualOracle(gnn, space, FlipGoal(predicted, None), device, should_stop)
    after = []
    removals = [(pair,) for pair in range(space.count)]
    step = space.sets_per_pass(gnn)
    for start in range(0, len(removals), step):
        oracle.check_stop()
        with torch.inference_mode():
            logits = space.logits(gnn, removals[start : start + step], device).cpu()
        after.append(logits.log_softmax(dim=1)[:, predicted])
    cost = before[predicted].clamp(min=1e-30).log() - torch.cat(after)  # [pair], sorted by ends
    by_pair = cost.clamp(min=0).clone()
    matrix = torch.zeros(graph.node_count, graph.node_count)
    matrix[space.sources, space.targets] = by_pair
    return matrix[graph.edges[0], graph.edges[1]]


def _inputs(gnn: Gnn, graph: Graph, device: torch.device) -> Tensor:
    """Symmetric in the ends of an edge: [edge, width]."""
    with torch.no_grad():
        _, states = gnn.sparse_states(to_dense([graph]).to(device))
    rows = torch.cat([graph.features, states[0].cpu()], dim=1)  # [node, channel]
    one, other = rows[graph.edges[0]], rows[graph.edges[1]]
    marked = rows.new_zeros(rows.shape[1]) if graph.target is None else rows[graph.target]
    return torch.cat([one + other, (one - other).abs(), marked.expand_as(one)], dim=1)


def _network(inputs: Tensor, generator: torch.Generator) -> nn.Module:
    """A perceptron over standardised inputs."""
    with seeded(generator):
        return nn.Sequential(
            _Standardise(inputs),
            nn.Linear(inputs.shape[1], _HIDDEN),
            nn.ReLU(),
            nn.Linear(_HIDDEN, 1),
        )


class _Standardise(nn.Module):
    def __init__(self, inputs: Tensor) -> None:
        super().__init__()
        self._mean = inputs.mean(dim=0)
        self._scale = inputs.std(dim=0, correction=0).clamp(min=1e-6)

    def forward(self, inputs: Tensor) -> Tensor:
        return (inputs - self._mean) / self._scale


def _log_softmax(scores: Tensor, graph_of_edge: Tensor) -> Tensor:
    """Log-softmax over the edges of each graph: [edge of all graphs]."""
    count = int(graph_of_edge[-1]) + 1
    largest = scores.new_full((count,), -torch.inf)
    largest = largest.scatter_reduce(0, graph_of_edge, scores.detach(), "amax")
    shifted = scores - largest[graph_of_edge]
    total = scores.new_zeros(count).index_add(0, graph_of_edge, shifted.exp())
    return shifted - total.log()[graph_of_edge]
