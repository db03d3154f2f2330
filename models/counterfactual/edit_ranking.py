"""What is known about a graph's edits before the GNN has judged them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TypeVar

import torch
from torch import Tensor

from models.counterfactual.oracle import FORBIDDEN, CounterfactualOracle
from models.diffusion.denoiser import Denoiser
from models.graphs.edits import EditSet

# Node triples that the denoiser reads in one pass, and for one depth of a search: its matrix
# products grow with N³. Beyond, the GNN's own slopes have to do.
_TRIPLES_PER_PASS = 2**21
_TRIPLES_PER_DEPTH = 2**25


T = TypeVar("T")


class EffectSource(Enum):
    """Where the pool of pairs to try comes from; all but the first are for measuring it."""

    DENOISER = "denoiser"
    SLOPES = "slopes"  # of the GNN alone; what the denoiser says is said of random pairs instead
    NONE = "none"  # the same, and the slopes are no reason to leave any pair untried


class EditRanker:
    """Foretells for one graph which further edits move the GNN, and how plausible they are.

    With an effect head the denoiser corrects the GNN's slopes; without one the slopes alone are
    the answer, and a pair is left untried only where there are too many.
    """

    def __init__(
        self,
        denoiser: Denoiser,
        judge: CounterfactualOracle,
        device: torch.device,
        *,
        foresight: EffectSource,
        generator: torch.Generator,
    ) -> None:
        self._denoiser = denoiser
        self._judge = judge
        self._device = device
        self._generator = generator
        self._reads_effects = foresight is EffectSource.DENOISER and denoiser.shape.classes > 0
        self.foresees = self._reads_effects or foresight is EffectSource.SLOPES
        # pairs of a pool, at least; None: nobody knows
        self.needed = denoiser.shape.pool if self._reads_effects else 0
        space = judge.space
        self._gains: Tensor | None = None
        self._unedited: float | None = None
        if self._reads_effects:
            gains, plausibility = self._read([()])
            self._gains, self.plausibility = self._possible([()], gains)[0], plausibility[0]
        else:
            clean = space.dense([()]).to(device)
            self.plausibility = space.of_pairs(denoiser.read(clean).plausibility[0].cpu())
        if foresight is not EffectSource.DENOISER:
            order = torch.randperm(space.count, generator=generator)
            self.plausibility = self.plausibility[order]

    @property
    def unedited(self) -> float:
        """The margin of the unedited graph, which a look at it says too."""
        if self._unedited is None:
            (self._unedited,) = self._judge.margins([()])
        return self._unedited

    @property
    def gains(self) -> Tensor:
        """By how much each edit of the unedited graph should raise the margin: [pair]."""
        if self._gains is None:
            self._gains = self._possible([()], self._judge.gradients([()]))[0]
        return self._gains

    def shuffled(self, sets: list[T]) -> list[T]:
        """In random order, for what nothing is foretold about."""
        order = torch.randperm(len(sets), generator=self._generator).tolist()
        return [sets[place] for place in order]

    def gains_at(self, states: Sequence[EditSet]) -> Tensor:
        """By how much one more edit should raise the margin of each state: [state, pair]."""
        if not self._reads_effects:
            return self._possible(states, self._judge.gradients(states))
        nodes = self._judge.space.graph.node_count
        count = min(len(states), _TRIPLES_PER_DEPTH // nodes**3)
        rows = [self._read(states[:count])[0]] if count else []
        if count < len(states):
            rows.append(self._judge.gradients(states[count:]))
        return self._possible(states, torch.cat(rows))

    def _possible(self, states: Sequence[EditSet], gains: Tensor) -> Tensor:
        """Edits that a node has no valence left for are not worth a try."""
        ledger = self._judge.space.ledger
        return gains if ledger is None else gains.masked_fill(~ledger.affordable(states), FORBIDDEN)

    def _read(self, states: Sequence[EditSet]) -> tuple[Tensor, Tensor]:
        """Gains and plausibilities: [state, pair] each."""
        space, goal = self._judge.space, self._judge.goal
        per_pass = max(1, _TRIPLES_PER_PASS // max(space.graph.node_count, 1) ** 3)
        gains, plausible = [], []
        for start in range(0, len(states), per_pass):
            graphs = space.dense(states[start : start + per_pass]).to(self._device)
            view = self._judge.look(graphs)
            reading = self._denoiser.read(graphs, view)
            assert reading.effects is not None
            effects = space.of_pairs(reading.effects.cpu())  # [class, state, pair]
            logits = view.logits.cpu().T[:, :, None]  # [class, state, 1]
            after = goal.margin((logits + effects).flatten(1).T).view(effects.shape[1:])
            before = goal.margin(view.logits.cpu())  # [state]
            if self._unedited is None and states[start] == ():
                self._unedited = float(before[0])
            gains.append(after - before[:, None])
            plausible.append(space.of_pairs(reading.plausibility.cpu()))
        return torch.cat(gains), torch.cat(plausible)
