"""Transfer: which judges share a flip, and the verdict in one word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict


class Verdict(Enum):
    MEANINGFUL = "meaningful"  # most judges that agree on the original share the flip
    BRITTLE = "brittle"  # at most half of them do: a finding about the GNN itself
    UNJUDGED = "unjudged"  # fewer than half of the judges agree with the GNN on the original


@dataclass(frozen=True)
class Transfer:
    """How many judges share a flip."""

    shared: int
    agreeing: int  # judges that give the original the GNN's class; only they can share the flip
    asked: int

    @property
    def verdict(self) -> Verdict:
        if self.asked == 0 or 2 * self.agreeing < self.asked:
            return Verdict.UNJUDGED
        return Verdict.MEANINGFUL if 2 * self.shared > self.agreeing else Verdict.BRITTLE


class Judges:
    """Judges of one input graph, whose classes for it are computed once."""

    def __init__(self, gnns: Sequence[Gnn], original: Graph, device: torch.device) -> None:
        self._gnns = list(gnns)
        self._device = device
        self._before = [int(predict(gnn, [original], device)[0].argmax()) for gnn in self._gnns]

    def transfers(
        self, answers: Sequence[Graph], old_class: int, new_classes: Sequence[int]
    ) -> list[Transfer]:
        """A judge shares a flip if it gives the original the old class and the answer the new."""
        agreeing = [
            gnn for gnn, before in zip(self._gnns, self._before, strict=True) if before == old_class
        ]
        shared = torch.zeros(len(answers), dtype=torch.long)
        wanted = torch.tensor(list(new_classes), dtype=torch.long)
        for gnn in agreeing:
            after: Tensor = predict(gnn, answers, self._device).argmax(dim=1)
            shared += after == wanted
        return [Transfer(int(count), len(agreeing), len(self._gnns)) for count in shared]
