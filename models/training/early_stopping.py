"""Early stopping: detects a plateau and stores the best weights."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

MIN_GAIN = 0.002  # smallest gain that counts as an improvement


class Plateau:
    """Stores the weights of the best measurement; counts measurements without improvement."""

    def __init__(self, patience: int) -> None:
        self.best: dict[str, Tensor] = {}  # empty before the first measurement
        self._patience = patience  # 0 disables early stopping
        self._score = -math.inf
        self._without_gain = 0

    @property
    def reached(self) -> bool:
        return 0 < self._patience <= self._without_gain

    def measured(self, score: float, weights: Mapping[str, Tensor]) -> None:
        if not self._patience:
            return
        self._without_gain += 1
        if score > self._score + MIN_GAIN:
            self._score, self._without_gain = score, 0
            self.best = {name: value.clone() for name, value in weights.items()}

    def state(self) -> dict[str, Tensor]:
        return {
            "score": torch.tensor(self._score, dtype=torch.float64),
            "no_better": torch.tensor(self._without_gain),
            **{f"best.{name}": value.cpu().clone() for name, value in self.best.items()},
        }

    def load_state(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        self._score = float(tensors["score"])
        self._without_gain = int(tensors["no_better"])
        self.best = {
            name.removeprefix("best."): value.to(device, copy=True)
            for name, value in tensors.items()
            if name.startswith("best.")
        }
