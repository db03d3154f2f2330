"""What a denoiser is trained for."""

from __future__ import annotations

from enum import Enum


class Objective(Enum):
    COUNTERFACTUAL = "counterfactual"
    CLASS = "class"
