"""Configuration of a counterfactual explanation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from models.counterfactual.believable.search import BelievableConfig
from models.counterfactual.edit_ranking import EffectSource
from models.counterfactual.large.candidate_space import CandidateConfig
from models.counterfactual.paper.proposals import PaperSampling
from models.counterfactual.result import Aim
from models.counterfactual.search.search_config import SearchConfig

# Our search, D4Explainer as printed, or an explainer of `models.explainers`.
Sampler = Literal["guided", "paper", "explainer"]

_SAMPLERS: tuple[Sampler, ...] = get_args(Sampler)


@dataclass(frozen=True)
class CounterfactualConfig:
    target_class: int | None = None  # None means any class but the current one
    alternatives: int = 3
    aim: Aim = "minimal"
    sampler: Sampler = "guided"
    paper: PaperSampling = field(default_factory=PaperSampling)  # of the sampler `paper`
    search: SearchConfig = field(default_factory=SearchConfig)
    believable: BelievableConfig = field(default_factory=BelievableConfig)
    candidates: CandidateConfig = field(default_factory=CandidateConfig)  # for large graphs
    # For ablations:
    prune: bool = True  # False returns flips with their unnecessary edits
    effect_source: EffectSource = EffectSource.DENOISER

    def __post_init__(self) -> None:
        if self.alternatives < 1:
            raise ValueError(f"alternatives must be at least 1, got {self.alternatives}")
        if self.sampler not in _SAMPLERS:
            raise ValueError(f"sampler must be one of {sorted(_SAMPLERS)}, got {self.sampler!r}")
        if self.aim not in get_args(Aim):
            raise ValueError(f"aim must be one of {sorted(get_args(Aim))}, got {self.aim!r}")
        if self.sampler != "guided" and self.aim != "minimal":
            raise ValueError(
                f"the sampler {self.sampler!r} has the aim minimal only, got {self.aim!r}"
            )


def search_of_large_graphs(config: CounterfactualConfig) -> SearchConfig:
    """Larger batches and a fixed pool: each evaluation is a pass over the whole large graph."""
    thorough = config.search.pool is None
    return replace(
        config.search,
        pool=config.candidates.pool * (4 if thorough else 1),
        calibrated=False,
        batch_size=32,
    )
