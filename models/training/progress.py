"""What every trainer reports, and the interface of a trainer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from models.diffusion.edge_denoiser import EdgeDenoiser

SMOOTHING = 0.95  # of the reported losses


class NonFiniteGradientError(ArithmeticError):
    """The gradient of a step is infinite or NaN, for example because the GNN overflows."""

    def __init__(self, step: int, loss: float) -> None:
        super().__init__(f"the gradient of step {step} is not finite; its loss is {loss}")


@dataclass(frozen=True)
class TrainingProgress:
    step: int
    steps: int
    loss: float  # without the effect head's loss; this and the next three are smoothed
    loss_dist: float
    loss_cf: float | None  # None while the loss has no L_cf
    flip_rate: float | None  # share of the denoiser's samples that change the GNN's class
    detection_auc: float | None  # last measurement on held-out graphs, like validity
    validity: float | None  # share of the graphs that the predicted edits flip
    seconds: float  # of training, summed over all attempts


class DenoiserTrainer(Protocol):
    """A training that can be stopped, saved and resumed."""

    step: int
    steps: int

    @property
    def finished(self) -> bool: ...

    @property
    def without_gradient(self) -> bool:
        """Whether L_cf is trained without the GNN's gradient."""

    def run(
        self, *, should_stop: Callable[[], bool] = ..., until: int | None = None
    ) -> Iterator[TrainingProgress]:
        """Takes steps until the training is finished, at step `until`, or stopped."""

    def denoiser(self) -> EdgeDenoiser:
        """The trained denoiser; in eval mode, on the CPU."""

    def state(self) -> dict[str, Tensor]: ...

    def load_state(self, tensors: Mapping[str, Tensor]) -> None: ...
