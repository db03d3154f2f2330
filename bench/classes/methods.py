"""The compared class explainers.

- `d4`: patterns by evidence; candidates from the denoiser's chains and from the data.
- `mined`: the same with candidates from the data alone, without a denoiser.
- `xgnn` and `hill_climbing`: graphs by the GNN's confidence in them alone, without a denoiser.
- `d4_paper`: the paper's Algorithm 1 as printed, with the denoiser of `d4`; graphs may repeat.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.classes.config import ClassConfig, Sampler

PAPER_EXPLANATIONS = 20  # chains of `d4_paper`
_K, _T = 20, 50  # T = 50 is the smallest value in the paper


@dataclass(frozen=True)
class ClassMethod:
    name: str
    sampler: Sampler
    uses_denoiser: bool
    candidates: int | None = None  # K
    steps: int | None = None  # T

    @property
    def key(self) -> str:
        return self.name if self.steps is None else f"{self.name}-k{self.candidates}-t{self.steps}"

    def config(self, label: int, nodes: int | None) -> ClassConfig:
        is_guided = self.sampler == "guided"
        return ClassConfig(
            label,
            nodes=nodes,
            chains=ClassConfig.chains if is_guided else PAPER_EXPLANATIONS,
            candidates=self.candidates or ClassConfig.candidates,
            steps=self.steps or ClassConfig.steps,
            sampler=self.sampler,
            repeats=not is_guided,
        )


OURS = (
    ClassMethod("d4", "guided", True, ClassConfig.candidates, ClassConfig.steps),
    ClassMethod("mined", "guided", False),
)
PAPER = ClassMethod("d4_paper", "paper", True, _K, _T)
ALONE = (
    ClassMethod("xgnn", "xgnn", False),
    ClassMethod("hill_climbing", "hill-climbing", False),
)
# K, T of the paper's second table, except the settings of `PAPER`.
PAPER_GRID = tuple(
    ClassMethod("d4_paper", "paper", True, candidates, steps)
    for candidates, steps in ((10, 50), (20, 10), (20, 100), (30, 50))
)
