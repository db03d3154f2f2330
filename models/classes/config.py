"""Settings of class explanations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from models.classes.regularisers import Regulariser, regularisers_for

# Patterns by evidence, the paper's Algorithm 1, or graphs by the GNN's confidence in them alone.
Sampler = Literal["guided", "paper", "xgnn", "hill-climbing"]
ALONE: tuple[Sampler, ...] = ("xgnn", "hill-climbing")  # without a denoiser


@dataclass(frozen=True)
class ClassConfig:
    target_class: int
    nodes: int | None = None  # N; None means up to 7
    chains: int = 8  # R; also the largest number of answers
    candidates: int = 20  # K
    steps: int = 30  # T
    sampler: Sampler = "guided"
    repeats: bool = False  # answers may be isomorphic; not for `guided`
    regularisers: tuple[Regulariser, ...] | None = None  # None means the sampler's default

    def __post_init__(self) -> None:
        if min(self.chains, self.candidates, self.steps) < 1:
            raise ValueError(f"chains, candidates and steps must be at least 1, got {self}")
        if self.nodes is not None and self.nodes < 1:
            raise ValueError(f"nodes must be at least 1, got {self.nodes}")
        if self.sampler not in get_args(Sampler):
            raise ValueError(f"sampler must be one of {get_args(Sampler)}, got {self.sampler!r}")
        if self.repeats and self.sampler == "guided":
            raise ValueError("repeats needs another sampler than 'guided'")

    @property
    def resolved_regularisers(self) -> tuple[Regulariser, ...]:
        if self.regularisers is not None:
            return self.regularisers
        return regularisers_for() if self.sampler == "guided" else ()


@dataclass(frozen=True)
class ClassEffort:
    candidates: int
    steps: int


# Presets of K and T.
CLASS_PRESETS: dict[str, ClassEffort] = {
    "fast": ClassEffort(candidates=10, steps=10),
    "balanced": ClassEffort(candidates=ClassConfig.candidates, steps=ClassConfig.steps),
    "thorough": ClassEffort(candidates=30, steps=50),
}
