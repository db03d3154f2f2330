"""Settings of global counterfactuals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

MAX_TYPES = 64  # of nodes; counts of edges by their types take memory with the square
RADII = (0.05, 0.075, 0.1, 0.125, 0.15, 0.2)  # of the coverage curve


@dataclass(frozen=True)
class GlobalConfig:
    """`radius` is the largest cost per node and edge of both graphs that counts as near."""

    source_class: int
    target_class: int | None = None  # None: any other class
    count: int = 10  # graphs that are returned at most
    radius: float = 0.1
    seeds: int = 6  # graphs from which each answer is grown; the best result counts
    rounds: int = 5  # of aligning and climbing, per seed
    max_nodes: int = 100  # larger graphs take no part; aligning costs nodes³

    def __post_init__(self) -> None:
        for name in ("count", "seeds", "rounds", "max_nodes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0 < self.radius <= RADII[-1]:
            raise ValueError(f"radius must be above 0 and at most {RADII[-1]}, got {self.radius}")


@dataclass(frozen=True)
class GlobalPreset:
    """How much to search; see `GlobalConfig`."""

    seeds: int
    rounds: int


GLOBAL_PRESETS: Mapping[str, GlobalPreset] = MappingProxyType(
    {
        "fast": GlobalPreset(seeds=2, rounds=3),
        "balanced": GlobalPreset(seeds=6, rounds=5),
        "thorough": GlobalPreset(seeds=12, rounds=6),
    }
)
