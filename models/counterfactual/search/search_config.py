"""The width of the search for edit sets, and the presets.

Decision 15 has the measurements behind each field; what made no difference is gone.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchConfig:
    """How many edit sets the search tries."""

    pool: int | None = 8  # pairs tried as single edits and in the best state; None means all
    # Enlarge the pool to the size that the denoiser's calibration found. A fixed size loses AUC
    # (32) or takes 15 % more evaluations (64).
    calibrated: bool = True
    states: int = 9  # of a depth that are expanded; with 6 the answers were less natural
    expansions: int = 8  # pairs per criterion, for every state but the best
    # From depth 2 on, up to this many edit sets are all tried: then no smaller flip exists.
    all_sets: int = 1024
    wide_depth: int = 6  # at larger depths, only the best state is expanded, to bound the cost
    min_flips: int = 12  # flips to find, so that natural ones can be selected; 6 were too few
    batch_size: int = 4  # sets evaluated between two checks for enough flips
    # A depth ends when (known flips) · (consecutive misses) reaches this; None means no limit. It
    # halves the evaluations on Tree-Cycle.
    stale_limit: int | None = 24

    def __post_init__(self) -> None:
        for field in ("states", "expansions", "all_sets", "wide_depth", "min_flips", "batch_size"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} must be at least 1, got {getattr(self, field)}")
        for field in ("pool", "stale_limit"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise ValueError(f"{field} must be at least 1, got {value}")


# A wider search finds smaller and more flips.
PRESETS: dict[str, SearchConfig] = {
    "fast": SearchConfig(pool=16, calibrated=False, states=4, expansions=6, min_flips=6),
    "balanced": SearchConfig(),
    "thorough": SearchConfig(
        pool=None, min_flips=64, stale_limit=None, wide_depth=16, states=16, expansions=16
    ),
}
