"""The compared class explainers.

- `d4`: our sampler with its defaults.
- `d4_paper`: the paper's Algorithm 1 as printed, with the denoiser of `d4`; graphs may repeat.
- `real_random`: random connected subgraphs of class graphs.
- `real_best20`: the most confident of 20 random connected subgraphs of class graphs.
- `hill_climbing`: from a random graph, the best single toggle until none increases confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from bench.counterfactuals.instances import CPU
from d4explain.gnn.graphs import DenseGraphs, Graph, from_dense, to_dense
from d4explain.gnn.network import Gnn, predict
from models.classes.config import ClassConfig, Sampler
from models.classes.explain import explain_class
from models.classes.node_features import ClassParts
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.noise import symmetric_uniform

EXPLANATIONS = 100
_SUBGRAPHS_PER_ANSWER = 20  # of `real_best20`


@dataclass(frozen=True)
class ClassTask:
    """One class of one GNN at one size, with the reference graphs."""

    gnn: Gnn
    reference: Sequence[Graph]  # graphs that the GNN assigns to the class
    target_class: int
    nodes: int


@dataclass(frozen=True)
class Answers:
    graphs: list[Graph]
    shares: list[float]  # sum to 1; equal for all methods but `d4`

    @staticmethod
    def equally_weighted(graphs: list[Graph]) -> Answers:
        return Answers(graphs, [1 / len(graphs)] * len(graphs))


@dataclass(frozen=True)
class ClassMethod:
    name: str
    sampler: Sampler | None = None  # None if the method needs no denoiser
    candidates: int | None = None  # K
    steps: int | None = None  # T

    @property
    def key(self) -> str:
        return self.name if self.steps is None else f"{self.name}-k{self.candidates}-t{self.steps}"


_DEFAULT = ClassConfig(0)
# T = 50 is the smallest value in the paper.
METHODS = (
    ClassMethod("d4", "guided", _DEFAULT.candidates, _DEFAULT.steps),
    ClassMethod("d4_paper", "paper", 20, 50),
    ClassMethod("real_random"),
    ClassMethod("real_best20"),
    ClassMethod("hill_climbing"),
)
_GRID = ((10, 50), (20, 10), (20, 50), (20, 100), (30, 50))  # K, T of the paper's second table


def parameter_grid() -> tuple[ClassMethod, ...]:
    """Both samplers at the paper's K and T, except settings already in `METHODS`."""
    grid = [
        replace(method, candidates=candidates, steps=steps)
        for method in METHODS
        if method.sampler is not None
        for candidates, steps in _GRID
    ]
    return tuple(method for method in grid if method not in METHODS)


def answers(
    method: ClassMethod, task: ClassTask, denoiser: EdgeDenoiser | None, count: int, seed: int
) -> Answers:
    """`count` explanations; `d4` may return fewer, distinct ones with shares."""
    generator = torch.Generator().manual_seed(seed)
    if method.sampler is None or method.candidates is None or method.steps is None:
        search = {
            "real_random": random_subgraphs,
            "real_best20": best_subgraphs,
            "hill_climbing": hill_climbing,
        }[method.name]
        return Answers.equally_weighted(search(task, count, generator))
    if denoiser is None:
        raise ValueError(f"Method {method.name!r} needs a denoiser.")
    config = ClassConfig(
        target_class=task.target_class,
        nodes=task.nodes,
        chains=count,
        candidates=method.candidates,
        steps=method.steps,
        sampler=method.sampler,
        repeats=method.sampler == "paper",
    )
    explanations = explain_class(task.gnn, denoiser, task.reference, config, seed=seed, device=CPU)
    graphs = [explanation.graph for explanation in explanations]
    shares = [explanation.share for explanation in explanations if explanation.share is not None]
    return Answers(graphs, shares) if shares else Answers.equally_weighted(graphs)


def random_subgraphs(task: ClassTask, count: int, generator: torch.Generator) -> list[Graph]:
    parts = ClassParts(task.reference, generator)
    return [parts.draw(task.nodes) for _ in range(count)]


def best_subgraphs(task: ClassTask, count: int, generator: torch.Generator) -> list[Graph]:
    drawn = random_subgraphs(task, count * _SUBGRAPHS_PER_ANSWER, generator)
    confidence = predict(task.gnn, drawn, CPU)[:, task.target_class]
    best = confidence.view(count, _SUBGRAPHS_PER_ANSWER).argmax(dim=1).tolist()
    return [
        drawn[answer * _SUBGRAPHS_PER_ANSWER + subgraph] for answer, subgraph in enumerate(best)
    ]


def hill_climbing(task: ClassTask, count: int, generator: torch.Generator) -> list[Graph]:
    """Climb from ER(N, 1/2) edges with the features of a class subgraph."""
    parts = ClassParts(task.reference, generator)
    drawn = to_dense([parts.draw(task.nodes) for _ in range(count)])
    random = (symmetric_uniform(drawn.adjacency, generator) < 0.5) & drawn.pair_mask
    current = drawn.with_adjacency(random.to(drawn.adjacency.dtype))
    sources, targets = torch.triu_indices(task.nodes, task.nodes, offset=1)
    best = _log_confidence(task, current)
    climbing = torch.ones(count, dtype=torch.bool)
    while bool(climbing.any()):
        toggled = current.repeat(len(sources))  # every pair of graph 0, then of graph 1, …
        row = torch.arange(toggled.count)
        source, target = sources.repeat(count), targets.repeat(count)
        toggled.adjacency[row, source, target] = 1 - toggled.adjacency[row, source, target]
        toggled.adjacency[row, target, source] = toggled.adjacency[row, source, target]
        highest, pair = _log_confidence(task, toggled).view(count, -1).max(dim=1)
        climbing = highest > best
        chosen = toggled.adjacency[torch.arange(count) * len(sources) + pair]
        current = current.with_adjacency(
            torch.where(climbing[:, None, None], chosen, current.adjacency)
        )
        best = torch.maximum(best, highest)
    return from_dense(current)


def _log_confidence(task: ClassTask, graphs: DenseGraphs) -> torch.Tensor:
    with torch.inference_mode():
        return task.gnn.dense(graphs).log_softmax(dim=1)[:, task.target_class]
