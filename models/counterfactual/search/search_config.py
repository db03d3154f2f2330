"""The width of the search for edit sets, and the presets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchConfig:
    """How many edit sets the search tries."""

    pool: int | None = 8  # pairs tried as single edits and in the best state; None means all
    calibrated: bool = True  # enlarge the pool to the size that the denoiser's calibration found
    states_by_margin: int = 6
    states_by_plausibility: int = 3  # ranked by margin + plausibility_weight · plausibility
    plausibility_weight: float = 0.3
    expansions: int = 8  # pairs per criterion, for every state but the best
    full_pairs: int = 2000  # if there are more pairs, only the most promising ones are tried
    full_cells: int = 2**26  # limit on the entries of all their adjacencies together
    all_sets: int = 1024  # from depth 2 on, up to this many edit sets are tried exhaustively
    wide_depth: int = 6  # at larger depths, only the best state is expanded
    min_flips: int = 6  # flips to find, so that natural ones can be selected
    batch_size: int = 4  # sets evaluated between two checks for enough flips
    extend_pool: bool = True  # double the pool if none of its edits flips the GNN
    corrects_ranking: bool = True  # measured gains correct the ranking of the second half
    # A depth ends when (known flips) · (consecutive misses) reaches this; None means no limit.
    stale_limit: int | None = 24
    beam_divisor: int = 3  # narrows the beam once a flip is known
    exchange_flips: int = 8  # flips that an exchange tries to make smaller
    exchange_sets: int = 96  # sets that an exchange tries
    exchange_bases: int = 24  # sets with two edits dropped that an exchange adds one edit to

    def __post_init__(self) -> None:
        if min(self.states_by_margin, self.expansions, self.full_pairs, self.all_sets) < 1:
            raise ValueError(f"a search needs at least one state and one edit, got {self}")
        if min(self.batch_size, self.beam_divisor, self.min_flips) < 1:
            raise ValueError(
                f"batch_size, beam_divisor and min_flips must be at least 1, got {self}"
            )
        if self.pool is not None and self.pool < 1:
            raise ValueError(f"pool must be at least 1, got {self.pool}")
        if self.stale_limit is not None and self.stale_limit < 1:
            raise ValueError(f"stale_limit must be at least 1, got {self.stale_limit}")

    def pairs_tried(self, nodes: int) -> int:
        return max(self.expansions, min(self.full_pairs, self.full_cells // max(nodes, 1) ** 2))


# A wider search finds smaller and more flips.
PRESETS: dict[str, SearchConfig] = {
    "fast": SearchConfig(
        pool=16,
        calibrated=False,
        extend_pool=False,
        states_by_margin=3,
        states_by_plausibility=1,
        expansions=6,
        exchange_flips=2,
        exchange_bases=8,
    ),
    "balanced": SearchConfig(),
    "thorough": SearchConfig(
        pool=None,
        min_flips=64,
        stale_limit=None,
        wide_depth=16,
        states_by_margin=12,
        states_by_plausibility=4,
        expansions=16,
        exchange_flips=16,
        exchange_sets=2000,
        exchange_bases=48,
    ),
}
