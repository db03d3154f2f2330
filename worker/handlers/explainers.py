"""Maps explainers to the samplers of `models`."""

from __future__ import annotations

from typing import Literal

from d4explain.contracts.requests import Explainer

SAMPLERS: dict[Explainer, Literal["guided", "paper"]] = {
    "d4": "guided",
    "d4-paper": "paper",
    "search": "guided",  # without a denoiser
}
