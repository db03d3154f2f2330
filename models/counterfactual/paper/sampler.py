"""D4Explainer's own sampler: noise, denoise, draw, verify; no search and no pruning."""

from __future__ import annotations

import torch

from models.counterfactual.edit_ranking import EditRanker
from models.counterfactual.modes import SearchMode
from models.counterfactual.oracle import CounterfactualOracle
from models.counterfactual.proposers import EditProposer
from models.counterfactual.selection import (
    CountUnseen,
    Selection,
    choose,
    closest_miss,
    nothing_unseen,
    verified_flips,
)


def sample_counterfactuals(
    mode: SearchMode,
    proposer: EditProposer,
    oracle: CounterfactualOracle,
    ranker: EditRanker,
    *,
    count_unseen: CountUnseen = nothing_unseen,
    generator: torch.Generator,
    device: torch.device,
) -> tuple[Selection, int]:
    """Verifies the drawn edit sets as they are and selects the smallest; and the number drawn."""
    samples = mode.sample(proposer, ranker, generator, device)
    distinct = list(dict.fromkeys(samples.edit_sets))
    flips = verified_flips(oracle, distinct)
    chosen = choose(oracle.space, flips, mode.config.alternatives, count_unseen)
    miss = None if chosen else closest_miss(oracle, distinct)
    return Selection(chosen, miss, frozenset(distinct)), samples.drawn
