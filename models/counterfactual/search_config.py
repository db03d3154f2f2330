"""How wide the search for edit sets looks, and what the presets stand for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchConfig:
    """How wide the search looks."""

    pool: int | None = 8  # pairs tried first of all and in the best state; None: all pairs
    calibrated: bool = True  # more of them, if the denoiser needed more on held-out graphs
    states_by_margin: int = 6
    states_by_plausibility: int = 3  # ranked by margin + plausibility_weight · plausibility
    plausibility_weight: float = 0.3
    expansions: int = 8  # per criterion, for every state but the best
    full_pairs: int = 2000  # of more pairs only the most promising ones are tried
    full_cells: int = 2**26  # and so few that their adjacencies have at most so many entries
    all_sets: int = 1024  # from depth 2 on, so few edit sets are tried completely
    wide_depth: int = 6  # beyond, only the best state goes on, with its most promising pairs
    exchanged: int = 8  # flips that are tried to be made smaller by exchange
    choice: int = 6  # flips that are looked for, so that the most natural ones can be chosen
    portion: int = 4  # sets judged before it is asked whether that is enough
    second_look: bool = True  # at as many pairs again, if no edit of the pool flips
    # known flips, times sets in a row without another one, that end a depth; None: nothing does
    dry: int | None = 24
    narrow: int = 3  # the beam is so many times narrower where only alternatives are missing
    exchanges: int = 96  # sets that an exchange tries
    bases: int = 24  # sets with two edits dropped that an exchange adds one to

    def __post_init__(self) -> None:
        if min(self.states_by_margin, self.expansions, self.full_pairs, self.all_sets) < 1:
            raise ValueError(f"a search looks at one state and one edit at least, got {self}")
        if min(self.portion, self.narrow, self.choice) < 1:
            raise ValueError(f"portion, narrow and choice are 1 at least, got {self}")
        if self.pool is not None and self.pool < 1:
            raise ValueError(f"a pool holds one pair at least, got {self.pool}")
        if self.dry is not None and self.dry < 1:
            raise ValueError(f"dry is 1 at least, got {self.dry}")

    def pairs_tried(self, nodes: int) -> int:
        return max(self.expansions, min(self.full_pairs, self.full_cells // max(nodes, 1) ** 2))


# How much work an answer is worth: a wider search finds smaller and more flips.
PRESETS: dict[str, SearchConfig] = {
    "fast": SearchConfig(
        pool=16,
        calibrated=False,
        second_look=False,
        states_by_margin=3,
        states_by_plausibility=1,
        expansions=6,
        exchanged=2,
        bases=8,
    ),
    "balanced": SearchConfig(),
    "thorough": SearchConfig(
        pool=None,
        choice=64,
        dry=None,
        wide_depth=16,
        states_by_margin=12,
        states_by_plausibility=4,
        expansions=16,
        exchanged=16,
        exchanges=2000,
        bases=48,
    ),
}
