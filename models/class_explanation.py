"""Class explanation: reverse sampling in which the GNN picks among the denoiser's candidates.

`paper` is Algorithm 1 of D4Explainer. `guided` differs in three ways: half of the candidates are
drawn under the features of a fresh part of a class graph, the choice is regularised, and the best
graph of the chain is returned instead of the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from models.class_features import ClassParts
from models.connectivity import component_counts
from models.denoiser import CLEAN_FLIP, Denoiser
from models.diffusion import NoiseLevel, add_noise, symmetric_uniform
from models.errors import NoReferenceGraphsError, UnknownClassError
from models.gnn.network import Gnn, predict
from models.graphs import DenseGraphs, Graph, from_dense, to_dense
from models.isomorphism import graph_codes
from models.regularisers import (
    Candidates,
    ReferenceShape,
    Regulariser,
    regularised,
    regularisers_for,
)

Sampler = Literal["guided", "paper"]

# Sizes tried when none is given: the method notes train and measure on 4 to 12 nodes.
_SIZES = (5, 6, 8, 10, 12, 16)
_PILOT_STEPS = 5
# A smaller explanation is taken if it loses at most this much of its score, in nats.
_SIZE_TOLERANCE = 0.05
_PARTS_PER_SIZE = 16  # subgraphs per size behind the regularisers' reference
_CELLS_PER_PASS = 2**21  # numbers of the candidates that are judged at once


@dataclass(frozen=True)
class ClassConfig:
    target_class: int
    nodes: int | None = None  # N; None: chosen per chain
    chains: int = 8  # R
    candidates: int = 20  # K
    steps: int = 30  # T
    sampler: Sampler = "guided"
    regularisers: tuple[Regulariser, ...] | None = None  # None: the sampler's own

    def __post_init__(self) -> None:
        if min(self.chains, self.candidates, self.steps) < 1:
            raise ValueError(f"chains, candidates and steps are 1 at least, got {self}")
        if self.nodes is not None and self.nodes < 1:
            raise ValueError(f"an explanation has one node at least, got nodes={self.nodes}")
        if self.sampler not in ("guided", "paper"):
            raise ValueError(f"sampler is 'guided' or 'paper', got {self.sampler!r}")

    @property
    def resolved_regularisers(self) -> tuple[Regulariser, ...]:
        if self.regularisers is not None:
            return self.regularisers
        return regularisers_for() if self.sampler == "guided" else ()


@dataclass(frozen=True)
class ClassGraph:
    graph: Graph
    probabilities: Tensor  # [class], by the sparse GNN
    likelihood: float  # log-likelihood per node under the denoiser
    connected: bool


def explain_class(
    gnn: Gnn,
    denoiser: Denoiser,
    reference: Sequence[Graph],
    config: ClassConfig,
    *,
    seed: int,
    device: torch.device,
    should_stop: Callable[[], bool] = lambda: False,
    on_step: Callable[[int, int], None] = lambda step, steps: None,
) -> list[ClassGraph]:
    """Graphs that the GNN gives the target class, most confident first, no two isomorphic.

    `reference` are graphs of that class; node features and sizes come from them. Stopped early,
    it returns the best so far, which is nothing before the first step.
    """
    if not 0 <= config.target_class < gnn.spec.classes:
        raise UnknownClassError(config.target_class, gnn.spec.classes)
    generator = torch.Generator().manual_seed(seed)
    parts = ClassParts(reference, generator)
    if parts.largest == 0:
        raise NoReferenceGraphsError(config.target_class)
    gnn.eval()
    denoiser.eval()
    grid = _sizes(parts.largest) if config.nodes is None else (config.nodes,)
    sampler = _Sampler(
        gnn, denoiser, config, parts=parts, sizes=grid, generator=generator, device=device
    )
    pilot_steps = min(_PILOT_STEPS, config.steps) if len(grid) > 1 else 0
    total = pilot_steps + config.steps
    sizes = [grid[0]] * config.chains
    best: _Judged | None = None
    if pilot_steps:
        # every chain tries every size: chain after chain, sizes in order
        tried = list(grid) * config.chains
        best = sampler.run(tried, pilot_steps, should_stop, lambda step: on_step(step, total))
        if best is not None:
            best = best.select(_smallest_good(best.scores.view(config.chains, len(grid))))
            sizes = best.graphs.mask.sum(dim=1).tolist()
    found = sampler.run(
        sizes, config.steps, should_stop, lambda step: on_step(pilot_steps + step, total)
    )
    best = best if found is None else found
    return [] if best is None else _ranked(gnn, best, config.target_class, device)


@dataclass(frozen=True)
class _Judged:
    """Graphs with what was decided by: the regularised score, and their likelihood."""

    graphs: DenseGraphs
    scores: Tensor  # [batch]
    log_likelihood: Tensor  # [batch]

    def select(self, index: Tensor) -> _Judged:
        return _Judged(self.graphs.select(index), self.scores[index], self.log_likelihood[index])


class _Sampler:
    """Runs chains side by side; a batch may hold chains of different sizes."""

    def __init__(
        self,
        gnn: Gnn,
        denoiser: Denoiser,
        config: ClassConfig,
        *,
        parts: ClassParts,
        sizes: Sequence[int],
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self._gnn = gnn
        self._denoiser = denoiser
        self._parts = parts
        self._config = config
        self._generator = generator
        self._device = device
        self._guided = config.sampler == "guided"
        seen = [parts.draw(size) for size in sizes for _ in range(_PARTS_PER_SIZE)]
        self._reference = ReferenceShape.of([part for part in seen if part.edge_count], max(sizes))

    def run(
        self,
        sizes: Sequence[int],
        steps: int,
        should_stop: Callable[[], bool],
        report: Callable[[int], None],
    ) -> _Judged | None:
        """One result per chain, or nothing if stopped before the first step."""
        noisy = self._random_graphs(sizes)  # G_T
        chosen: list[DenseGraphs] = []
        for step in range(steps):
            if should_stop():
                break
            chosen.append(self._pick(noisy, 0.5 * (1 - step / steps)))
            left = _level(0.5 * (1 - (step + 1) / steps), noisy)
            noisy = add_noise(chosen[-1], left, self._generator)
            report(step + 1)
        if not chosen:
            return None
        if not self._guided:
            return self._judge_clean(chosen[-1])
        judged = self._judge_clean(_joined(chosen))  # step after step, chains in order
        best = judged.scores.view(len(chosen), len(sizes)).argmax(dim=0)  # [chain] step
        return judged.select(best * len(sizes) + torch.arange(len(sizes)))

    def _random_graphs(self, sizes: Sequence[int]) -> DenseGraphs:
        """ER(N, 1/2) with the features of parts of class graphs."""
        graphs = to_dense([self._parts.draw(size) for size in sizes])
        drawn = symmetric_uniform(graphs.adjacency, self._generator) < 0.5
        return graphs.with_adjacency((drawn & graphs.pair_mask).to(graphs.adjacency.dtype))

    def _pick(self, noisy: DenseGraphs, flip: float) -> DenseGraphs:
        """Each chain's best of K candidates drawn from p(G_0 | G_t)."""
        cells = self._config.candidates * noisy.mask.shape[1] * noisy.mask.shape[1]
        chains = torch.split(torch.arange(noisy.count), max(1, _CELLS_PER_PASS // max(cells, 1)))
        return _joined([self._pick_at_once(noisy.select(some), flip) for some in chains])

    def _pick_at_once(self, noisy: DenseGraphs, flip: float) -> DenseGraphs:
        contexts = self._contexts(noisy)
        per_chain = contexts.count // noisy.count
        with torch.inference_mode():
            logits = self._denoiser(
                contexts.to(self._device), _level(flip, contexts).to(self._device)
            ).cpu()  # [chain · context, node, node]
        turn = torch.arange(self._config.candidates) % per_chain
        which = (torch.arange(noisy.count)[:, None] * per_chain + turn).flatten()
        candidates, logits = contexts.select(which), logits[which]
        drawn = symmetric_uniform(logits, self._generator) < logits.sigmoid()
        candidates = candidates.with_adjacency(
            (drawn & candidates.pair_mask).to(candidates.adjacency.dtype)
        )
        scores = self._scores(candidates, _log_likelihood(candidates, logits))
        best = scores.view(noisy.count, self._config.candidates).argmax(dim=1)
        return candidates.select(torch.arange(noisy.count) * self._config.candidates + best)

    def _contexts(self, noisy: DenseGraphs) -> DenseGraphs:
        """The noisy graphs under their own features and, if guided, under fresh ones in turn."""
        if not self._guided:
            return noisy
        fresh = to_dense(
            [self._parts.draw(size) for size in noisy.mask.sum(dim=1).tolist()],
            nodes=noisy.mask.shape[1],
        )
        twice = noisy.repeat(2)
        features = torch.stack([noisy.features, fresh.features], dim=1).flatten(0, 1)
        return DenseGraphs(twice.adjacency, features, twice.mask)

    def _judge_clean(self, graphs: DenseGraphs) -> _Judged:
        """Scores with the likelihood of every edge given the rest, comparable across steps."""
        cells = graphs.mask.shape[1] ** 2
        judged = []
        for some in torch.split(torch.arange(graphs.count), max(1, _CELLS_PER_PASS // cells // 8)):
            own = graphs.select(some)
            with torch.inference_mode():
                logits = self._denoiser.edge_log_odds(
                    own.to(self._device), _level(CLEAN_FLIP, own).to(self._device)
                ).cpu()
            likelihood = _log_likelihood(own, logits)
            judged.append((self._scores(own, likelihood), likelihood))
        scores, likelihoods = (torch.cat(column) for column in zip(*judged, strict=True))
        return _Judged(graphs, scores, likelihoods)

    def _scores(self, graphs: DenseGraphs, log_likelihood: Tensor) -> Tensor:
        with torch.inference_mode():
            logits = self._gnn.dense(graphs.to(self._device)).cpu()
        log_confidence = logits.log_softmax(dim=1)[:, self._config.target_class]
        candidates = Candidates(graphs, log_likelihood, self._reference)
        return regularised(log_confidence, candidates, self._config.resolved_regularisers)


def _sizes(largest: int) -> tuple[int, ...]:
    """The sizes that reference graphs can have, at least one."""
    return tuple(size for size in _SIZES if size <= largest) or (largest,)


def _smallest_good(scores: Tensor) -> Tensor:
    """Of [chain, size] scores, sizes ascending, each chain's place in the flattened rows."""
    good = scores >= scores.amax(dim=1, keepdim=True) - _SIZE_TOLERANCE
    chains, sizes = scores.shape
    return torch.arange(chains) * sizes + good.int().argmax(dim=1)


def _ranked(gnn: Gnn, best: _Judged, target_class: int, device: torch.device) -> list[ClassGraph]:
    graphs = from_dense(best.graphs)
    probabilities = predict(gnn, graphs, device)
    per_node = best.log_likelihood / best.graphs.mask.sum(dim=1)
    components = component_counts(best.graphs).tolist()
    codes = graph_codes(best.graphs)
    ranking = probabilities[:, target_class].argsort(descending=True, stable=True).tolist()
    first_of_code = {codes[position]: position for position in reversed(ranking)}
    return [
        ClassGraph(
            graph=graphs[position],
            probabilities=probabilities[position],
            likelihood=float(per_node[position]),
            connected=components[position] == 1,
        )
        for position in ranking
        if first_of_code[codes[position]] == position
    ]


def _log_likelihood(graphs: DenseGraphs, logits: Tensor) -> Tensor:
    """Σ over node pairs of log P(A_ij) with P(A_ij = 1) = sigmoid(logit): [batch]."""
    per_pair = logsigmoid((2 * graphs.adjacency - 1) * logits) * graphs.pair_mask
    return per_pair.sum(dim=(1, 2)) / 2


def _level(flip: float, graphs: DenseGraphs) -> NoiseLevel:
    return NoiseLevel.symmetric(graphs.adjacency.new_full((graphs.count,), flip))


def _joined(batches: Sequence[DenseGraphs]) -> DenseGraphs:
    return DenseGraphs(
        torch.cat([batch.adjacency for batch in batches]),
        torch.cat([batch.features for batch in batches]),
        torch.cat([batch.mask for batch in batches]),
    )
