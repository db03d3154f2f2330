"""D4Explainer's own sampler: noise, denoise, draw, verify; no search and no pruning."""

from __future__ import annotations

import torch

from models.counterfactual.config import CounterfactualConfig
from models.counterfactual.oracle import CounterfactualOracle
from models.counterfactual.paper.proposals import paper_edit_sets
from models.counterfactual.selection import (
    CountUnseen,
    Selection,
    choose,
    closest_miss,
    nothing_unseen,
    verified_flips,
)
from models.diffusion.edge_denoiser import EdgeDenoiser


def sample_counterfactuals(
    denoiser: EdgeDenoiser,
    oracle: CounterfactualOracle,
    config: CounterfactualConfig,
    *,
    count_unseen: CountUnseen = nothing_unseen,
    generator: torch.Generator,
    device: torch.device,
) -> tuple[Selection, int]:
    """Verifies the drawn edit sets as they are and selects the smallest; and the number drawn."""
    space = oracle.space.dense_form
    assert space is not None, "a large graph is refused before"
    drawn = paper_edit_sets(denoiser, space, config.paper, generator, device)
    distinct = list(dict.fromkeys(edits for edits in drawn if edits))
    flips = verified_flips(oracle, distinct)
    chosen = choose(space, flips, config.alternatives, count_unseen)
    miss = None if chosen else closest_miss(oracle, distinct)
    return Selection(chosen, miss, frozenset(distinct)), len(drawn)
