"""Reverse chains of the class sampler: denoise, let the GNN pick, add less noise, repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from d4explain.gnn.graphs import DenseGraphs, to_dense
from d4explain.gnn.network import Gnn
from models.classes.node_features import ClassParts
from models.classes.regularisers import (
    Candidates,
    Recurrence,
    ReferenceShape,
    Regulariser,
    faults_of,
    regularised,
)
from models.classes.selection import TARGET_LOG_CONFIDENCE, Pool, distinct
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.noise import NoiseLevel, add_noise, symmetric_uniform
from models.graphs.isomorphism import graph_codes

_KEPT = 4  # best candidates per chain and step that may become answers
_PARTS_PER_SIZE = 16  # reference subgraphs per size that the regularisers compare with
_PARTS_COUNTED = 400  # reference subgraphs per size in which a graph's recurrence is counted
_NUMBERS_PER_PAIR = 8  # that the regularisers need
_NUMBERS_PER_PASS = 2**22  # in one pass of either network


@dataclass(frozen=True)
class ChainConfig:
    target_class: int
    candidates: int  # K
    guided: bool  # fresh parts for two thirds of the candidates; keeps good graphs of all steps
    repeats: bool  # chains may return isomorphic graphs
    regularisers: tuple[Regulariser, ...]


class Chains:
    """Runs chains in parallel; a batch may hold chains of different sizes."""

    def __init__(
        self,
        gnn: Gnn,
        denoiser: EdgeDenoiser,
        config: ChainConfig,
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
        self._reference = self._measured_reference(sizes)

    def run(
        self,
        sizes: Sequence[int],
        steps: int,
        should_stop: Callable[[], bool],
        report: Callable[[int], None],
    ) -> Pool | None:
        """Good graphs of all steps, or of the last step for `paper`; None if stopped before one."""
        noisy = self.random_graphs(sizes)  # G_T
        good: list[DenseGraphs] = []  # each chain's first, second, … best of a step
        for step in range(steps):
            if should_stop():
                break
            best = self._best(noisy, 0.5 * (1 - step / steps))
            good = [*good, *best] if self._config.guided else best
            left = _level(0.5 * (1 - (step + 1) / steps), noisy)
            noisy = add_noise(best[0], left, self._generator)
            report(step + 1)
        return self._evaluated(_joined(good)) if good else None

    def _evaluated(self, graphs: DenseGraphs) -> Pool:
        if not self._config.repeats:
            graphs = distinct(graphs)
        log_likelihood = self._clean_log_likelihood(graphs)
        log_confidence = self._log_confidence(graphs)
        scores = self._scores(graphs, log_confidence, log_likelihood)
        faults = torch.cat(
            [
                faults_of(candidates, self._config.regularisers)
                for _, candidates in self._candidates(graphs, log_likelihood)
            ]
        )
        return Pool(graphs, log_confidence, log_likelihood, scores, faults)

    def random_graphs(self, sizes: Sequence[int]) -> DenseGraphs:
        """ER(N, 1/2) with the features of parts of class graphs."""
        graphs = to_dense([self._parts.draw(size) for size in sizes])
        drawn = symmetric_uniform(graphs.adjacency, self._generator) < 0.5
        return graphs.with_adjacency((drawn & graphs.pair_mask).to(graphs.adjacency.dtype))

    def _best(self, noisy: DenseGraphs, flip: float) -> list[DenseGraphs]:
        """Each chain's best, second best, … of K candidates drawn from p(G_0 | G_t)."""
        chains = self._passes(noisy, self._config.candidates + 4 * self._denoiser.hidden)
        results = [self._best_at_once(noisy.select(some), flip) for some in chains]
        return [_joined(by_rank) for by_rank in zip(*results, strict=True)]

    def _best_at_once(self, noisy: DenseGraphs, flip: float) -> list[DenseGraphs]:
        contexts = self._contexts(noisy, flip)
        per_chain = contexts.count // noisy.count
        with torch.inference_mode():
            logits = self._denoiser(
                contexts.to(self._device), _level(flip, contexts).to(self._device)
            ).cpu()  # [chain · context, node, node]
        context = torch.arange(self._config.candidates) % per_chain  # candidates alternate
        chosen = (torch.arange(noisy.count)[:, None] * per_chain + context).flatten()
        candidates, logits = contexts.select(chosen), logits[chosen]
        drawn = symmetric_uniform(logits, self._generator) < logits.sigmoid()
        candidates = candidates.with_adjacency(
            (drawn & candidates.pair_mask).to(candidates.adjacency.dtype)
        )
        scores = self._scores(
            candidates, self._log_confidence(candidates), _log_likelihood(candidates, logits)
        )
        ranked = scores.view(noisy.count, -1).argsort(dim=1, descending=True, stable=True)
        kept = ranked[:, : _KEPT if self._config.guided else 1]
        first = torch.arange(noisy.count) * self._config.candidates
        return [candidates.select(first + by_rank) for by_rank in kept.unbind(dim=1)]

    def _contexts(self, noisy: DenseGraphs, flip: float) -> DenseGraphs:
        """The graphs to denoise for each chain: its noisy graph and, if guided, two more.

        These are the noisy graph with the features of a fresh part of a class graph, and another
        fresh part with its own edges, at the noise level of the chain.
        """
        if not self._config.guided:
            return noisy
        sizes = noisy.mask.sum(dim=1).tolist()
        width = noisy.mask.shape[1]
        fresh = to_dense([self._parts.draw(size) for size in sizes], nodes=width)
        other = to_dense([self._parts.draw(size) for size in sizes], nodes=width)
        other = add_noise(other, _level(flip, other), self._generator)
        contexts = noisy.repeat(3)
        batches = (noisy, fresh, other)
        attributes = [one.edge_attributes for one in batches if one.edge_attributes is not None]
        return replace(
            contexts,
            features=_interleaved(noisy.features, fresh.features, other.features),
            adjacency=_interleaved(noisy.adjacency, noisy.adjacency, other.adjacency),
            # Edge attributes depend on the nodes, so they come with the features.
            edge_attributes=_interleaved(*attributes) if attributes else None,
        )

    def _measured_reference(self, sizes: Sequence[int]) -> ReferenceShape:
        drawn = [self._parts.draw(size) for size in sizes for _ in range(_PARTS_PER_SIZE)]
        seen = to_dense([part for part in drawn if part.edge_count] or drawn)
        return ReferenceShape.of(
            seen,
            self._clean_log_likelihood(seen),
            max(sizes),
            limits=self._parts.degree_limits(),
            frequency=self._frequencies(sizes),
            kinds=self._parts.kinds,
        )

    def _frequencies(self, sizes: Sequence[int]) -> dict[int, float]:
        """Frequency of each graph among class parts of its size, by code."""
        if not any(isinstance(term, Recurrence) for term in self._config.regularisers):
            return {}
        counts: Counter[int] = Counter()
        for size in sizes:
            drawn = [self._parts.draw(size) for _ in range(_PARTS_COUNTED)]
            counts.update(graph_codes(to_dense(drawn), features=self._parts.kinds))
        return {code: count / _PARTS_COUNTED for code, count in counts.items()}

    def _clean_log_likelihood(self, graphs: DenseGraphs) -> Tensor:
        """Log-likelihood of every pair given the rest, comparable between steps: [batch]."""
        results = []
        for some in self._passes(graphs, 2 * self._denoiser.hidden):
            own = graphs.select(some)
            with torch.inference_mode():
                logits = self._denoiser.edge_log_odds(
                    own.to(self._device),
                    _level(self._denoiser.clean_flip, own).to(self._device),
                )
            results.append(_log_likelihood(own, logits.cpu()))
        return torch.cat(results)

    def _log_confidence(self, graphs: DenseGraphs) -> Tensor:
        """log f(C | G): [batch]."""
        results = []
        for some in self._passes(graphs, 1):
            with torch.inference_mode():
                logits = self._gnn.answers(graphs.select(some).to(self._device)).cpu()
            results.append(logits.log_softmax(dim=1)[:, self._config.target_class])
        return torch.cat(results)

    def _scores(
        self, graphs: DenseGraphs, log_confidence: Tensor, log_likelihood: Tensor
    ) -> Tensor:
        """Regularised log-confidence; `guided` caps it first, so that the regularisers decide."""
        if self._config.guided:
            log_confidence = log_confidence.clamp(max=TARGET_LOG_CONFIDENCE)
        return torch.cat(
            [
                regularised(log_confidence[some], candidates, self._config.regularisers)
                for some, candidates in self._candidates(graphs, log_likelihood)
            ]
        )

    def _candidates(
        self, graphs: DenseGraphs, log_likelihood: Tensor
    ) -> Iterator[tuple[Tensor, Candidates]]:
        """Positions and candidates in batches that fit one pass of the regularisers."""
        for some in self._passes(graphs, _NUMBERS_PER_PAIR):
            yield some, Candidates(graphs.select(some), log_likelihood[some], self._reference)

    @staticmethod
    def _passes(graphs: DenseGraphs, numbers_per_pair: int) -> tuple[Tensor, ...]:
        """Positions of graphs in batches that fit one pass."""
        numbers = max(1, graphs.mask.shape[1] ** 2 * numbers_per_pair)
        return torch.split(torch.arange(graphs.count), max(1, _NUMBERS_PER_PASS // numbers))


def _log_likelihood(graphs: DenseGraphs, logits: Tensor) -> Tensor:
    """Σ over node pairs of log P(A_ij) with P(A_ij = 1) = sigmoid(logit): [batch]."""
    per_pair = logsigmoid((2 * graphs.adjacency - 1) * logits) * graphs.pair_mask
    return per_pair.sum(dim=(1, 2)) / 2


def _level(flip: float, graphs: DenseGraphs) -> NoiseLevel:
    return NoiseLevel.symmetric(graphs.adjacency.new_full((graphs.count,), flip))


def _interleaved(*batches: Tensor) -> Tensor:
    """Row 0 of each, row 1 of each, …"""
    return torch.stack(batches, dim=1).flatten(0, 1)


def _joined(batches: Sequence[DenseGraphs]) -> DenseGraphs:
    targets = [batch.targets for batch in batches if batch.targets is not None]
    attributes = [batch.edge_attributes for batch in batches if batch.edge_attributes is not None]
    return DenseGraphs(
        torch.cat([batch.adjacency for batch in batches]),
        torch.cat([batch.features for batch in batches]),
        torch.cat([batch.mask for batch in batches]),
        torch.cat(targets) if targets else None,
        torch.cat(attributes) if attributes else None,
    )
