"""Reverse chains of the class sampler: denoise, let the GNN pick, add less noise, repeat."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from d4explain.gnn.graphs import DenseGraphs, Graph, to_dense
from d4explain.gnn.network import Gnn
from models.classes.node_features import ClassParts
from models.classes.pool import Pool, distinct
from models.classes.regularisers import (
    Candidates,
    Recurrence,
    ReferenceShape,
    Regulariser,
    regularised,
)
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.noise import NoiseLevel, add_noise, symmetric_uniform
from models.graphs.isomorphism import graph_codes

_KEPT = 4  # best candidates per chain and step that may become answers
_PARTS_PER_SIZE = 16  # reference subgraphs per size that the regularisers compare with
_PARTS_COUNTED = 400  # reference subgraphs per size in which a graph's recurrence is counted
_NUMBERS_PER_PAIR = 8  # that the regularisers need
_NUMBERS_PER_PASS = 2**22  # in one pass of either network
# A higher log f is not worth a worse value of a regulariser.
_TARGET_LOG_CONFIDENCE = math.log(0.995)


@dataclass(frozen=True)
class ChainConfig:
    target_class: int
    candidates: int  # K
    guided: bool  # fresh parts for two thirds of the candidates; keeps good graphs of all steps
    repeats: bool  # chains may return isomorphic graphs
    regularisers: tuple[Regulariser, ...]


class Chains:
    """Runs chains in parallel; a batch may hold chains of different sizes.

    `hosts` are graphs of other classes in which the GNN judges candidates. Without any, it judges
    them alone, as in the paper.
    """

    def __init__(
        self,
        gnn: Gnn,
        denoiser: EdgeDenoiser,
        config: ChainConfig,
        *,
        parts: ClassParts,
        sizes: Sequence[int],
        hosts: Sequence[Graph],
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self._gnn = gnn
        self._denoiser = denoiser
        self._parts = parts
        self._config = config
        self._hosts = hosts
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
        step_of: list[int] = []  # the step of each batch
        steps_taken: list[DenseGraphs] = []
        for step in range(steps):
            if should_stop():
                break
            best = self._best(noisy, 0.5 * (1 - step / steps))
            steps_taken.append(best[0])
            good = [*good, *best] if self._config.guided else best
            step_of = [*step_of, *[step] * len(best)] if self._config.guided else [step]
            left = _level(0.5 * (1 - (step + 1) / steps), noisy)
            noisy = add_noise(best[0], left, self._generator)
            report(step + 1)
        if not good:
            return None
        graphs, chains = _joined(good), len(sizes)
        kept = torch.arange(graphs.count) if self._config.repeats else distinct(graphs)
        graphs = graphs.select(kept)
        return Pool(
            graphs,
            self.clean_log_likelihood(graphs),
            chain=[place % chains for place in kept.tolist()],
            step=[step_of[place // chains] for place in kept.tolist()],
            steps=steps_taken,
        )

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
            self.clean_log_likelihood(seen),
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

    def clean_log_likelihood(self, graphs: DenseGraphs) -> Tensor:
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
        """log f(C | G), or its mean over the graphs that G hangs on by an edge: [batch]."""
        hosts = self._hosts if graphs.edge_attributes is None else []
        hung = [self._hung_on(host, graphs) for host in hosts] or [graphs]
        return torch.stack([self._log_confidence_of(batch) for batch in hung]).mean(dim=0)

    def _log_confidence_of(self, graphs: DenseGraphs) -> Tensor:
        results = []
        for some in self._passes(graphs, 1):
            with torch.inference_mode():
                logits = self._gnn.answers(graphs.select(some).to(self._device)).cpu()
            results.append(logits.log_softmax(dim=1)[:, self._config.target_class])
        return torch.cat(results)

    def _hung_on(self, host: Graph, graphs: DenseGraphs) -> DenseGraphs:
        """Every graph beside the host, with an edge between random nodes; the marked node stays."""
        own = to_dense([host])
        size, count = host.node_count, graphs.count
        width = size + graphs.mask.shape[1]
        adjacency = graphs.adjacency.new_zeros(count, width, width)
        adjacency[:, :size, :size] = own.adjacency
        adjacency[:, size:, size:] = graphs.adjacency
        place = torch.randint(size, (count,), generator=self._generator)
        chances = torch.rand(count, generator=self._generator)
        end = size + (chances * graphs.mask.sum(dim=1)).long()
        row = torch.arange(count)
        adjacency[row, place, end] = adjacency[row, end, place] = 1
        return DenseGraphs(
            adjacency,
            torch.cat([own.features.expand(count, -1, -1), graphs.features], dim=1),
            torch.cat([own.mask.expand(count, -1), graphs.mask], dim=1),
            None if graphs.targets is None else graphs.targets + size,
        )

    def _scores(
        self, graphs: DenseGraphs, log_confidence: Tensor, log_likelihood: Tensor
    ) -> Tensor:
        """Regularised log-confidence; `guided` caps it first, so that the regularisers decide."""
        if self._config.guided:
            log_confidence = log_confidence.clamp(max=_TARGET_LOG_CONFIDENCE)
        scores = []
        for some in self._passes(graphs, _NUMBERS_PER_PAIR):
            candidates = Candidates(graphs.select(some), log_likelihood[some], self._reference)
            scores.append(regularised(log_confidence[some], candidates, self._config.regularisers))
        return torch.cat(scores)

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
