"""Early stopping: detects a plateau and stores the best weights."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

# Smallest gain of detection AUC + effect share that counts. With less, answers on validation
# instances no longer changed; see decision 16.
MIN_GAIN = 0.02


class Plateau:
    """Stores the weights of the best measurement; counts measurements without a gain that counts.

    Gains add up: slow but steady progress counts as soon as it reaches MIN_GAIN.
    """

    def __init__(self, patience: int) -> None:
        self.best: dict[str, Tensor] = {}  # empty before the first measurement
        self._patience = patience  # 0 disables early stopping
        self._best_score = -math.inf
        self._counted_score = -math.inf  # of the last gain that counted
        self._without_gain = 0

    @property
    def reached(self) -> bool:
        return 0 < self._patience <= self._without_gain

    def measured(self, score: float, weights: Mapping[str, Tensor]) -> None:
        if not self._patience:
            return
        self._without_gain += 1
        if score > self._counted_score + MIN_GAIN:
            self._counted_score, self._without_gain = score, 0
        if score > self._best_score:
            self._best_score = score
            self.best = {name: value.clone() for name, value in weights.items()}

    def state(self) -> dict[str, Tensor]:
        return {
            "score": torch.tensor(self._best_score, dtype=torch.float64),
            "counted": torch.tensor(self._counted_score, dtype=torch.float64),
            "no_better": torch.tensor(self._without_gain),
            **{f"best.{name}": value.cpu().clone() for name, value in self.best.items()},
        }

    def load_state(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        self._best_score = float(tensors["score"])
        self._counted_score = float(tensors["counted"])
        self._without_gain = int(tensors["no_better"])
        self.best = {
            name.removeprefix("best."): value.to(device, copy=True)
            for name, value in tensors.items()
            if name.startswith("best.")
        }
