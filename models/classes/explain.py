"""Class explanation: reverse sampling in which the GNN picks among the denoiser's candidates.

The sampler `paper` is Algorithm 1 of D4Explainer. The sampler `guided` differs in three ways. Two
thirds of the candidates come from fresh parts of class graphs, with the chain's edges or their own.
The GNN's choice is regularised. The answers come from all steps, not only from the last: a set of
confident graphs that together resemble the class, each with its share of it. There are fewer
answers than chains if more would resemble the class less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph, from_dense
from d4explain.gnn.network import Gnn, predict
from models.classes.node_features import ClassParts
from models.classes.regularisers import Regulariser, regularisers_for
from models.classes.reverse_sampling import ChainConfig, Chains
from models.classes.selection import Pool, select_graphs
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.errors import NoReferenceGraphsError, UnknownClassError
from models.graphs.connectivity import component_counts

Sampler = Literal["guided", "paper"]

# Sizes tried when none is given; denoisers of the class objective train mostly on 4 to 12 nodes.
_LARGEST_SIZE = 12
_SIZES_TRIED = 4
_PILOT_STEPS = 5
_PILOT_CHAINS = 8
_PARTS = 1_000  # sampled parts of class graphs that the answers should resemble
_RANDOM = 200  # random graphs, the baseline for resemblance
# A size is good if the best graphs of its pilot score at most this much less than the best size's.
_SIZE_TOLERANCE = 0.1


@dataclass(frozen=True)
class ClassConfig:
    target_class: int
    nodes: int | None = None  # N; None means chosen per chain
    chains: int = 8  # R
    candidates: int = 20  # K
    steps: int = 30  # T
    sampler: Sampler = "guided"
    repeats: bool = False  # answers of `paper` may be isomorphic
    regularisers: tuple[Regulariser, ...] | None = None  # None means the sampler's default

    def __post_init__(self) -> None:
        if min(self.chains, self.candidates, self.steps) < 1:
            raise ValueError(f"chains, candidates and steps must be at least 1, got {self}")
        if self.nodes is not None and self.nodes < 1:
            raise ValueError(f"nodes must be at least 1, got {self.nodes}")
        if self.sampler not in ("guided", "paper"):
            raise ValueError(f"sampler must be 'guided' or 'paper', got {self.sampler!r}")
        if self.repeats and self.sampler != "paper":
            raise ValueError(f"repeats needs the sampler 'paper', got {self.sampler!r}")

    @property
    def resolved_regularisers(self) -> tuple[Regulariser, ...]:
        if self.regularisers is not None:
            return self.regularisers
        return regularisers_for() if self.sampler == "guided" else ()


@dataclass(frozen=True)
class ClassEffort:
    candidates: int
    steps: int


# Presets of K and T.
CLASS_PRESETS: dict[str, ClassEffort] = {
    "fast": ClassEffort(candidates=10, steps=10),
    "balanced": ClassEffort(candidates=ClassConfig.candidates, steps=ClassConfig.steps),
    "thorough": ClassEffort(candidates=30, steps=50),
}


@dataclass(frozen=True)
class ClassGraph:
    graph: Graph
    probabilities: Tensor  # [class], by the sparse GNN
    likelihood: float  # log-likelihood per node under the denoiser
    connected: bool
    share: float | None  # share of the class; None for the sampler `paper`


def explain_class(
    gnn: Gnn,
    denoiser: EdgeDenoiser,
    reference: Sequence[Graph],
    config: ClassConfig,
    *,
    seed: int,
    device: torch.device,
    should_stop: Callable[[], bool] = lambda: False,
    on_step: Callable[[int, int], None] = lambda step, steps: None,
) -> list[ClassGraph]:
    """Samples graphs with a high probability of the target class, no two isomorphic.

    Answers are sorted by their share of the class, then by probability. `reference` are graphs of
    that class; node features and sizes come from them. If stopped early, it returns the best so
    far, and nothing before the first step.
    """
    if not 0 <= config.target_class < gnn.spec.classes:
        raise UnknownClassError(config.target_class, gnn.spec.classes)
    generator = torch.Generator().manual_seed(seed)
    parts = ClassParts(reference, generator)
    if parts.empty:
        raise NoReferenceGraphsError(config.target_class)
    gnn.eval()
    denoiser.eval()
    grid = _sizes(parts) if config.nodes is None else (config.nodes,)
    chains = Chains(
        gnn,
        denoiser,
        ChainConfig(
            target_class=config.target_class,
            candidates=config.candidates,
            guided=config.sampler == "guided",
            repeats=config.repeats,
            regularisers=config.resolved_regularisers,
        ),
        parts=parts,
        sizes=grid,
        generator=generator,
        device=device,
    )
    pilot_steps = min(_PILOT_STEPS, config.steps) if len(grid) > 1 else 0
    total = pilot_steps + config.steps
    sizes = [grid[0]] * config.chains
    pilot = None
    if pilot_steps:
        pilot_sizes = [size for size in grid for _ in range(_PILOT_CHAINS)]
        pilot = chains.run(pilot_sizes, pilot_steps, should_stop, lambda step: on_step(step, total))
        if pilot is not None:
            scores = {size: pilot.mean_best(size, _PILOT_CHAINS) for size in grid}
            least = max(scores.values()) - _SIZE_TOLERANCE
            good_sizes = [size for size in grid if scores[size] >= least]
            sizes = [good_sizes[chain % len(good_sizes)] for chain in range(config.chains)]
    visited = chains.run(
        sizes, config.steps, should_stop, lambda step: on_step(pilot_steps + step, total)
    )
    pool = pilot if visited is None else visited
    if pool is None:
        return []
    if config.sampler == "paper":
        best = pool.log_confidence.argsort(descending=True, stable=True)[: config.chains]
        return _ranked(gnn, pool.select(best), None, config, device)
    drawn = [parts.draw(sizes[place % len(sizes)]) for place in range(_PARTS)]
    random = chains.random_graphs([sizes[place % len(sizes)] for place in range(_RANDOM)])
    selected = select_graphs(pool, drawn, from_dense(random), config.chains)
    return _ranked(gnn, selected.pool, selected.shares, config, device)


def _sizes(parts: ClassParts) -> tuple[int, ...]:
    """Even steps from half the typical size of the class's connected parts up to it."""
    largest = parts.typical_size(_LARGEST_SIZE)
    smallest = (largest + 1) // 2
    steps = _SIZES_TRIED - 1
    return tuple(
        sorted({smallest + round(i * (largest - smallest) / steps) for i in range(steps + 1)})
    )


def _ranked(
    gnn: Gnn, best: Pool, shares: Tensor | None, config: ClassConfig, device: torch.device
) -> list[ClassGraph]:
    graphs = from_dense(best.graphs)
    probabilities = predict(gnn, graphs, device)
    per_node = best.log_likelihood / best.graphs.mask.sum(dim=1)
    components = component_counts(best.graphs).tolist()
    answers = [
        ClassGraph(
            graph=graphs[position],
            probabilities=probabilities[position],
            likelihood=float(per_node[position]),
            connected=components[position] == 1,
            share=None if shares is None else float(shares[position]),
        )
        for position in range(len(graphs))
    ]
    target = config.target_class
    return sorted(answers, key=lambda one: (-(one.share or 0), -float(one.probabilities[target])))
