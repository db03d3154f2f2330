"""The search stage: single edits, then the beam, and many edits at once where both fail."""

from __future__ import annotations

from dataclasses import dataclass

from models.counterfactual.edit_ranking import EditRanker
from models.counterfactual.modes import SearchMode
from models.counterfactual.oracle import CounterfactualOracle, StoppedError
from models.counterfactual.search.beam_search import BeamSearch
from models.counterfactual.search.ranked_edits import ranked_flips
from models.counterfactual.search.shortlist import Shortlist

_DEPTH_BEFORE_MANY = 2  # the search tries this many edits before it tries many at once


@dataclass
class SearchReport:
    """What the search did; the flips it found are in the oracle's cache."""

    depth: int = 0
    samples: int = 0  # graphs drawn from the denoiser, by the paper's sampler
    stopped: bool = False


def search_flips(
    mode: SearchMode,
    oracle: CounterfactualOracle,
    ranker: EditRanker,
    shortlist: Shortlist,
) -> SearchReport:
    """Fills the oracle's cache with flips until there are enough, or until it is stopped."""
    report = SearchReport()
    try:
        beam = BeamSearch(oracle, ranker, mode.search, shortlist.has_choice)
        single_edits = beam.begin()
        report.depth = 1
        while not shortlist.is_complete(beam.depth) and beam.depth < mode.max_depth:
            if beam.depth == _DEPTH_BEFORE_MANY and not oracle.flips():
                # A pruned flip of many edits also bounds the depth of the search.
                ranked_flips(
                    oracle,
                    ranker,
                    single_edits.effects,
                    wanted=mode.config.alternatives,
                    minimal=mode.config.prune,
                )
            beam.deepen()
            report.depth = beam.depth
    except StoppedError:
        report.stopped = True
    return report
