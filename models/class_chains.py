"""Reverse chains of the class sampler: denoise, let the GNN pick, add less noise, again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from models.class_features import ClassParts
from models.denoiser import CLEAN_FLIP, Denoiser
from models.diffusion import NoiseLevel, add_noise, symmetric_uniform
from models.gnn.network import Gnn
from models.graphs import DenseGraphs, to_dense
from models.isomorphism import graph_codes
from models.regularisers import Candidates, ReferenceShape, Regulariser, regularised

_WORSE = 1.0  # nats that a chain may lose to give a graph that no other chain gave
_PARTS_PER_SIZE = 16  # reference subgraphs per size that the regularisers compare with
_CELLS_PER_PASS = 2**22  # numbers that a pass of either network works on at once


@dataclass(frozen=True)
class ChainConfig:
    target_class: int
    candidates: int  # K
    guided: bool  # fresh features for half of the candidates, every chosen graph kept
    regularisers: tuple[Regulariser, ...]


@dataclass(frozen=True)
class KeptGraphs:
    """Graphs that chains went through, step after step, chains in order."""

    graphs: DenseGraphs
    scores: Tensor  # [step · chain] regularised
    log_likelihood: Tensor  # [step · chain]
    chains: int

    def select(self, index: Tensor) -> KeptGraphs:
        return KeptGraphs(
            self.graphs.select(index), self.scores[index], self.log_likelihood[index], len(index)
        )

    def best_scores(self) -> Tensor:
        return self.scores.view(-1, self.chains).amax(dim=0)  # [chain]

    def distinct(self) -> list[int]:
        """Positions of one graph per chain, no two isomorphic, best first.

        A chain whose best graph another one has found too gives its next best, unless that is
        much worse.
        """
        best = self.best_scores()
        codes = graph_codes(self.graphs)
        chosen: dict[int, int] = {}  # chain → position
        taken: set[int] = set()
        for position in self.scores.argsort(descending=True, stable=True).tolist():
            chain = position % self.chains
            worse = best[chain] - self.scores[position]
            if chain not in chosen and codes[position] not in taken and worse <= _WORSE:
                chosen[chain] = position
                taken.add(codes[position])
        return list(chosen.values())


class Chains:
    """Runs chains side by side; a batch may hold chains of different sizes."""

    def __init__(
        self,
        gnn: Gnn,
        denoiser: Denoiser,
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
    ) -> KeptGraphs | None:
        """The graphs that the chains chose (`paper`: in the end), None if none had the time."""
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
        graphs = _joined(chosen) if self._config.guided else chosen[-1]
        log_likelihood = self._clean_log_likelihood(graphs)
        return KeptGraphs(graphs, self._scores(graphs, log_likelihood), log_likelihood, len(sizes))

    def _random_graphs(self, sizes: Sequence[int]) -> DenseGraphs:
        """ER(N, 1/2) with the features of parts of class graphs."""
        graphs = to_dense([self._parts.draw(size) for size in sizes])
        drawn = symmetric_uniform(graphs.adjacency, self._generator) < 0.5
        return graphs.with_adjacency((drawn & graphs.pair_mask).to(graphs.adjacency.dtype))

    def _pick(self, noisy: DenseGraphs, flip: float) -> DenseGraphs:
        """Each chain's best of K candidates drawn from p(G_0 | G_t)."""
        chains = self._passes(noisy, self._config.candidates + 4 * self._denoiser.shape.hidden)
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
        if not self._config.guided:
            return noisy
        fresh = to_dense(
            [self._parts.draw(size) for size in noisy.mask.sum(dim=1).tolist()],
            nodes=noisy.mask.shape[1],
        )
        twice = noisy.repeat(2)
        features = torch.stack([noisy.features, fresh.features], dim=1).flatten(0, 1)
        return replace(twice, features=features)

    def _measured_reference(self, sizes: Sequence[int]) -> ReferenceShape:
        drawn = [self._parts.draw(size) for size in sizes for _ in range(_PARTS_PER_SIZE)]
        seen = to_dense([part for part in drawn if part.edge_count] or drawn)
        return ReferenceShape.of(seen, self._clean_log_likelihood(seen), max(sizes))

    def _clean_log_likelihood(self, graphs: DenseGraphs) -> Tensor:
        """Of every pair given the rest, hence comparable between steps: [batch]."""
        found = []
        for some in self._passes(graphs, 2 * self._denoiser.shape.hidden):
            own = graphs.select(some)
            with torch.inference_mode():
                logits = self._denoiser.edge_log_odds(
                    own.to(self._device), _level(CLEAN_FLIP, own).to(self._device)
                )
            found.append(_log_likelihood(own, logits.cpu()))
        return torch.cat(found)

    def _scores(self, graphs: DenseGraphs, log_likelihood: Tensor) -> Tensor:
        scores = []
        for some in self._passes(graphs, 1):
            own = graphs.select(some)
            with torch.inference_mode():
                logits = self._gnn.dense(own.to(self._device)).cpu()
            confidence = logits.log_softmax(dim=1)[:, self._config.target_class]
            candidates = Candidates(own, log_likelihood[some], self._reference)
            scores.append(regularised(confidence, candidates, self._config.regularisers))
        return torch.cat(scores)

    @staticmethod
    def _passes(graphs: DenseGraphs, numbers_per_pair: int) -> tuple[Tensor, ...]:
        """Positions of graphs that are small enough together for one pass."""
        cells = max(1, graphs.mask.shape[1] ** 2 * numbers_per_pair)
        return torch.split(torch.arange(graphs.count), max(1, _CELLS_PER_PASS // cells))


def _log_likelihood(graphs: DenseGraphs, logits: Tensor) -> Tensor:
    """Σ over node pairs of log P(A_ij) with P(A_ij = 1) = sigmoid(logit): [batch]."""
    per_pair = logsigmoid((2 * graphs.adjacency - 1) * logits) * graphs.pair_mask
    return per_pair.sum(dim=(1, 2)) / 2


def _level(flip: float, graphs: DenseGraphs) -> NoiseLevel:
    return NoiseLevel.symmetric(graphs.adjacency.new_full((graphs.count,), flip))


def _joined(batches: Sequence[DenseGraphs]) -> DenseGraphs:
    targets = [batch.targets for batch in batches if batch.targets is not None]
    return DenseGraphs(
        torch.cat([batch.adjacency for batch in batches]),
        torch.cat([batch.features for batch in batches]),
        torch.cat([batch.mask for batch in batches]),
        torch.cat(targets) if targets else None,
    )
