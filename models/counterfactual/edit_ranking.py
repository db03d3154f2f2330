"""Ranks edits before the GNN evaluates them: predicted margin gains and plausibilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import TypeVar

import torch
from torch import Tensor

from models.counterfactual.oracle import FORBIDDEN, CounterfactualOracle
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.graphs.base_edit_space import EditSet

_TIE_BREAK = 1e-6  # far below every plausibility that a denoiser gives

# Limits on N³ per denoiser pass and per search depth, because its matrix products grow with N³. If
# a depth needs more, the ranker uses the GNN's slopes for the remaining states.
_TRIPLES_PER_PASS = 2**21
_TRIPLES_PER_DEPTH = 2**25

T = TypeVar("T")


class EffectSource(Enum):
    """Source of the predicted effects; all but DENOISER are for ablations."""

    DENOISER = "denoiser"
    SLOPES = "slopes"  # the GNN's slopes alone; plausibilities are shuffled over the pairs
    NONE = "none"  # no predicted effects, so all pairs are tried; plausibilities are shuffled


class EditRanker(ABC):
    """Predicts for one graph how much each edit raises the margin and how plausible it is."""

    plausibility: Tensor  # [pair] log-odds that the denoiser gives each single edit
    predicts_effects: bool  # if False, the gains are not predictions and all pairs are tried
    calibrated_pool: int | None  # minimum size of a pool; None if uncalibrated
    _generator: torch.Generator

    @property
    @abstractmethod
    def unedited_margin(self) -> float:
        """The margin of the unedited graph."""

    @property
    @abstractmethod
    def gains(self) -> Tensor:
        """Predicted margin gain of each edit of the unedited graph: [pair]."""

    @abstractmethod
    def gains_at(self, states: Sequence[EditSet]) -> Tensor:
        """Predicted margin gain of one more edit in each state: [state, pair]."""

    def shuffled(self, sets: list[T]) -> list[T]:
        """The sets in random order, for searches without predicted effects."""
        order = torch.randperm(len(sets), generator=self._generator).tolist()
        return [sets[position] for position in order]


class AllPairsEditRanker(EditRanker):
    """Ranks all pairs of a small graph; by default the GNN's slopes are the predicted gains."""

    def __init__(self, oracle: CounterfactualOracle, generator: torch.Generator) -> None:
        self._oracle = oracle
        self._generator = generator
        self._gains: Tensor | None = None
        self._unedited: float | None = None

    @property
    def unedited_margin(self) -> float:
        if self._unedited is None:
            (self._unedited,) = self._oracle.margins([()])
        return self._unedited

    @property
    def gains(self) -> Tensor:
        if self._gains is None:
            self._gains = self._possible([()], self._oracle.gradients([()]))[0]
        return self._gains

    def gains_at(self, states: Sequence[EditSet]) -> Tensor:
        return self._possible(states, self._oracle.gradients(states))

    def _possible(self, states: Sequence[EditSet], gains: Tensor) -> Tensor:
        """Gains in which edits that exceed a node's valence are forbidden."""
        ledger = self._oracle.space.ledger
        return gains if ledger is None else gains.masked_fill(~ledger.affordable(states), FORBIDDEN)


class SlopeEditRanker(AllPairsEditRanker):
    """Ranks without a denoiser; for a GNN without gradients it predicts no effects."""

    calibrated_pool = None

    def __init__(self, oracle: CounterfactualOracle, generator: torch.Generator) -> None:
        super().__init__(oracle, generator)
        self.predicts_effects = oracle.gnn.has_dense
        self.plausibility = equal_plausibility((oracle.space.count,), generator)


class DenoiserEditRanker(AllPairsEditRanker):
    """Ranks all pairs of a graph in dense form.

    A denoiser with an effect head corrects the GNN's slopes. Without an effect head the slopes
    alone are the predicted gains.
    """

    def __init__(
        self,
        denoiser: EdgeDenoiser,
        oracle: CounterfactualOracle,
        device: torch.device,
        *,
        effect_source: EffectSource,
        generator: torch.Generator,
    ) -> None:
        super().__init__(oracle, generator)
        space = oracle.space.dense_form
        if space is None:
            raise ValueError("the denoiser ranks edits of graphs in dense form only")
        self._space = space
        self._denoiser = denoiser
        self._device = device
        self._reads_effects = effect_source is EffectSource.DENOISER and denoiser.predicts_effects
        self.predicts_effects = self._reads_effects or effect_source is EffectSource.SLOPES
        self.calibrated_pool = denoiser.calibrated_pool if self._reads_effects else 0
        if self._reads_effects:
            gains, plausibility = self._read([()])
            self._gains, self.plausibility = self._possible([()], gains)[0], plausibility[0]
        else:
            clean = space.dense([()]).to(device)
            self.plausibility = space.of_pairs(denoiser.read(clean).plausibility[0].cpu())
        if effect_source is not EffectSource.DENOISER:
            order = torch.randperm(space.count, generator=generator)
            self.plausibility = self.plausibility[order]

    def gains_at(self, states: Sequence[EditSet]) -> Tensor:
        if not self._reads_effects:
            return super().gains_at(states)
        nodes = self._space.graph.node_count
        count = min(len(states), _TRIPLES_PER_DEPTH // nodes**3)
        rows = [self._read(states[:count])[0]] if count else []
        if count < len(states):
            rows.append(self._oracle.gradients(states[count:]))
        return self._possible(states, torch.cat(rows))

    def _read(self, states: Sequence[EditSet]) -> tuple[Tensor, Tensor]:
        """Gains and plausibilities: [state, pair] each."""
        space, goal = self._space, self._oracle.goal
        per_pass = max(1, _TRIPLES_PER_PASS // max(space.graph.node_count, 1) ** 3)
        gains, plausible = [], []
        for start in range(0, len(states), per_pass):
            graphs = space.dense(states[start : start + per_pass]).to(self._device)
            sensitivity = self._oracle.sensitivity(graphs)
            reading = self._denoiser.read(graphs, sensitivity)
            assert reading.effects is not None
            effects = space.of_pairs(reading.effects.cpu())  # [class, state, pair]
            logits = sensitivity.logits.cpu().T[:, :, None]  # [class, state, 1]
            after = goal.margin((logits + effects).flatten(1).T).view(effects.shape[1:])
            before = goal.margin(sensitivity.logits.cpu())  # [state]
            if self._unedited is None and states[start] == ():
                self._unedited = float(before[0])
            gains.append(after - before[:, None])
            plausible.append(space.of_pairs(reading.plausibility.cpu()))
        return torch.cat(gains), torch.cat(plausible)


def equal_plausibility(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Plausibilities without a denoiser: equal, in random order.

    Exactly equal values would make the search prefer the pairs of the first nodes.
    """
    return _TIE_BREAK * torch.rand(shape, generator=generator)
