"""The search stage: single edits, then the beam, and samples where both fail."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from models.counterfactual.denoiser_proposals import pruned_flips
from models.counterfactual.edit_ranking import EditRanker
from models.counterfactual.modes import SearchMode
from models.counterfactual.oracle import CounterfactualOracle, StoppedError
from models.counterfactual.proposers import EditProposer
from models.counterfactual.search.beam_search import BeamSearch
from models.counterfactual.search.shortlist import Shortlist
from models.counterfactual.search.single_edits import SingleEdits
from models.graphs.base_edit_space import EditSet

_DEPTH_BEFORE_SAMPLES = 2  # the search tries this many edits before it samples


@dataclass
class SearchReport:
    """What the search did; the flips it found are in the oracle's cache."""

    depth: int = 0
    samples: int = 0  # graphs drawn from the denoiser
    from_samples: set[EditSet] = field(default_factory=set)
    stopped: bool = False


def search_flips(
    mode: SearchMode,
    proposer: EditProposer,
    oracle: CounterfactualOracle,
    ranker: EditRanker,
    shortlist: Shortlist,
    *,
    generator: torch.Generator,
    device: torch.device,
) -> SearchReport:
    """Fills the oracle's cache with flips until there are enough, or until it is stopped."""
    report = SearchReport()

    def sample_flips(single_edits: SingleEdits) -> None:
        samples = mode.sample(proposer, ranker, generator, device)
        report.samples = samples.drawn
        flips = pruned_flips(
            samples.edit_sets,
            oracle,
            single_edits,
            plausibility_weight=mode.search.plausibility_weight,
            wanted=mode.config.alternatives,
            minimal=mode.config.prune,
        )
        report.from_samples.update(flips)

    try:
        beam = BeamSearch(oracle, ranker, mode.search, shortlist.has_choice)
        single_edits = beam.begin()
        report.depth = 1
        while not shortlist.is_complete(beam.depth) and beam.depth < mode.max_depth:
            if beam.depth == _DEPTH_BEFORE_SAMPLES and not oracle.flips():
                # A pruned flip of a sample also bounds the depth of the search.
                sample_flips(single_edits)
            beam.deepen()
            report.depth = beam.depth
        beam.exchange()
    except StoppedError:
        report.stopped = True
    return report
