"""Early stopping: detects a plateau and keeps the best weights."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

BETTER = 0.002  # least gain that counts as an improvement


class Plateau:
    """Keeps the weights of the best measurement and counts measurements without improvement."""

    def __init__(self, patience: int) -> None:
        self.best: dict[str, Tensor] = {}  # empty before the first measurement
        self._patience = patience  # 0 disables early stopping
        self._score = -math.inf
        self._no_better = 0

    @property
    def reached(self) -> bool:
        return 0 < self._patience <= self._no_better

    def measured(self, score: float, weights: Mapping[str, Tensor]) -> None:
        if not self._patience:
            return
        self._no_better += 1
        if score > self._score + BETTER:
            self._score, self._no_better = score, 0
            self.best = {name: value.clone() for name, value in weights.items()}

    def forget(self) -> None:
        """Resets everything for a new stage of the training."""
        self.best, self._score, self._no_better = {}, -math.inf, 0

    def state(self) -> dict[str, Tensor]:
        return {
            "score": torch.tensor(self._score, dtype=torch.float64),
            "no_better": torch.tensor(self._no_better),
            **{f"best.{name}": value.cpu().clone() for name, value in self.best.items()},
        }

    def load_state(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        self._score = float(tensors["score"])
        self._no_better = int(tensors["no_better"])
        self.best = {
            name.removeprefix("best."): value.to(device, copy=True)
            for name, value in tensors.items()
            if name.startswith("best.")
        }
