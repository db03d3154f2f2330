"""Configuration of a counterfactual explanation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from models.counterfactual.denoiser_proposals import Proposals
from models.counterfactual.edit_ranking import EffectSource
from models.counterfactual.large.candidate_space import CandidateConfig
from models.counterfactual.search_config import SearchConfig

Sampler = Literal["guided", "paper"]

_PROPOSALS: dict[Sampler, Proposals] = {
    "guided": Proposals(
        noise_levels=(0.005, 0.01, 0.03, 0.1), noisy_per_level=2, draws_per_noisy=2
    ),
    "paper": Proposals(
        noise_levels=(0.005, 0.01, 0.02, 0.05, 0.1), noisy_per_level=20, draws_per_noisy=1
    ),
}


@dataclass(frozen=True)
class CounterfactualConfig:
    target_class: int | None = None  # None means any class but the current one
    alternatives: int = 3
    sampler: Sampler = "guided"
    proposals: Proposals | None = None  # None means the sampler's default
    search: SearchConfig = field(default_factory=SearchConfig)
    candidates: CandidateConfig = field(default_factory=CandidateConfig)  # for large graphs
    # For ablations:
    prune: bool = True  # False returns flips with their unnecessary edits
    effect_source: EffectSource = EffectSource.DENOISER

    def __post_init__(self) -> None:
        if self.alternatives < 1:
            raise ValueError(f"alternatives must be at least 1, got {self.alternatives}")
        if self.sampler not in _PROPOSALS:
            raise ValueError(f"sampler must be one of {sorted(_PROPOSALS)}, got {self.sampler!r}")

    @property
    def resolved_proposals(self) -> Proposals:
        return _PROPOSALS[self.sampler] if self.proposals is None else self.proposals


def search_of_large_graphs(config: CounterfactualConfig) -> SearchConfig:
    """Larger batches and a fixed pool: each evaluation is a pass over the whole large graph."""
    thorough = config.search.pool is None
    return replace(
        config.search,
        pool=config.candidates.pool * (4 if thorough else 1),
        calibrated=False,
        extend_pool=False,
        batch_size=32,
    )
