"""What a counterfactual explanation is asked to do."""

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
    target_class: int | None = None  # None: any class but the one before
    alternatives: int = 3
    sampler: Sampler = "guided"
    proposals: Proposals | None = None  # None: the sampler's own
    search: SearchConfig = field(default_factory=SearchConfig)
    candidates: CandidateConfig = field(default_factory=CandidateConfig)  # of large graphs
    # Both are for measuring what a part is worth:
    prune: bool = True  # False: flips are returned with the edits they do not need
    foresight: EffectSource = EffectSource.DENOISER

    def __post_init__(self) -> None:
        if self.alternatives < 1:
            raise ValueError(f"one answer at least has to be asked for, got {self.alternatives}")
        if self.sampler not in _PROPOSALS:
            raise ValueError(f"sampler is one of {sorted(_PROPOSALS)}, got {self.sampler!r}")

    @property
    def resolved_proposals(self) -> Proposals:
        return _PROPOSALS[self.sampler] if self.proposals is None else self.proposals


def search_of_large_graphs(config: CounterfactualConfig) -> SearchConfig:
    """Every verdict takes a pass over the large graph: more are asked for at once, and fewer."""
    thorough = config.search.pool is None
    return replace(
        config.search,
        pool=config.candidates.pool * (4 if thorough else 1),
        calibrated=False,
        second_look=False,
        portion=32,
    )
