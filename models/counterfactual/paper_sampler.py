"""D4Explainer's own sampler: noise, denoise, draw, verify; no search and no pruning."""

from __future__ import annotations

import torch

from models.counterfactual.edit_ranking import EditRanker
from models.counterfactual.modes import SearchMode
from models.counterfactual.oracle import CounterfactualOracle
from models.counterfactual.proposers import EditProposer
from models.counterfactual.selection import Selection, choose, closest_miss, verified_flips


def sample_counterfactuals(
    mode: SearchMode,
    proposer: EditProposer,
    oracle: CounterfactualOracle,
    ranker: EditRanker,
    *,
    generator: torch.Generator,
    device: torch.device,
) -> tuple[Selection, int]:
    """Verifies the drawn edit sets as they are and selects the smallest; and the number drawn."""
    samples = mode.sample(proposer, ranker, generator, device)
    distinct = list(dict.fromkeys(samples.edit_sets))
    chosen = choose(oracle.space, verified_flips(oracle, distinct), mode.config.alternatives)
    miss = None if chosen else closest_miss(oracle, distinct)
    return Selection(chosen, miss, frozenset(distinct)), samples.drawn
