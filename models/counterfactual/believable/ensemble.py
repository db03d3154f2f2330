"""The GNN and its selection witnesses as one objective of the search."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from d4explain.gnn.network import Gnn
from models.counterfactual.oracle import CounterfactualOracle, FlipGoal
from models.diffusion.gnn_sensitivity import toggle_slopes
from models.graphs.edits import EditSet, EditSpace

# Logits by which a witness must prefer the new class. A larger margin takes more edits and
# convinces hardly more judges.
WITNESS_MARGIN = 1.0
_FAR = 2  # margins; just above one, a network may still lose its conviction


class Ensemble:
    """Margins of the GNN (row 0) and the witnesses towards one class."""

    def __init__(
        self,
        oracle: CounterfactualOracle,
        space: EditSpace,
        witnesses: Sequence[Gnn],
        target: int,
        device: torch.device,
    ) -> None:
        self._oracle = oracle
        self._space = space
        self._device = device
        self._goal = FlipGoal(oracle.goal.before, target)
        self._networks = [oracle.gnn, *witnesses]
        self._per_pass = space.sets_per_pass(oracle.gnn)

    @property
    def witness_count(self) -> int:
        return len(self._networks) - 1

    def margins(self, edit_sets: Sequence[EditSet]) -> Tensor:
        """Margins in logits: [network, set]."""
        parts = []
        for start in range(0, len(edit_sets), self._per_pass):
            self._oracle.check_stop()
            graphs = self._space.dense(edit_sets[start : start + self._per_pass]).to(self._device)
            self._oracle.evaluations += graphs.count
            with torch.inference_mode():
                parts.append(
                    torch.stack(
                        [self._goal.margin(gnn.answers(graphs)).cpu() for gnn in self._networks]
                    )
                )
        return torch.cat(parts, dim=1) if parts else torch.empty(len(self._networks), 0)

    def slopes(self, edits: EditSet) -> Tensor:
        """First-order gain of the margins' sum by one more toggle: [pair].

        Networks that are convinced by far do not count. A GNN without a dense form has no slopes.
        """
        self._oracle.check_stop()
        graphs = self._space.dense([edits]).to(self._device)
        gains = torch.zeros(self._space.count)
        with torch.inference_mode(mode=False), torch.enable_grad():
            adjacency = graphs.adjacency.clone().requires_grad_()
            for position, gnn in enumerate(self._networks):
                if not gnn.has_dense:
                    continue
                margin = self._goal.margin(gnn.dense(graphs.with_adjacency(adjacency)))
                counts = float(margin.detach()) < _FAR * WITNESS_MARGIN
                if counts:
                    gains += self._space.of_pairs(toggle_slopes(margin.sum(), adjacency).cpu())[0]
                if position == 0:
                    self._oracle.evaluations += 1
                    self._oracle.gradient_count += counts and margin.requires_grad
        return gains

    def objective(self, margins: Tensor) -> Tensor:
        """Sum of the margins, clipped where they suffice: [set]."""
        return margins.clamp(max=WITNESS_MARGIN).sum(dim=0)

    def convinced(self, margins: Tensor) -> Tensor:
        """Number of witnesses that prefer the new class: [set]."""
        return (margins[1:] > 0).sum(dim=0)

    def sufficient(self, margins: Tensor) -> Tensor:
        """Whether the GNN flips and every witness prefers the new class by the margin: [set]."""
        return (margins[0] > 0) & (margins[1:] >= WITNESS_MARGIN).all(dim=0)
