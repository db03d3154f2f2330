"""The paper's training settings, as printed (section 4.1, appendices C.1, D and E.3)."""

from __future__ import annotations

from dataclasses import dataclass

from models.diffusion.objective import Objective
from models.diffusion.paper.network import PaperShape


@dataclass(frozen=True)
class PaperRecipe:
    """The defaults are the most frequent values of the table "Optimal parameters"."""

    name: str = "paper"
    objective: Objective = Objective.COUNTERFACTUAL
    # printed per data set, see PRINTED_SIZES
    hidden: int = 64
    blocks: int = 6
    batch_graphs: int = 32
    alpha: float = 0.05  # L = L_dist + alpha·L_cf
    # printed for all data sets
    epochs: int = 1500
    learning_rate: float = 1e-3
    # not printed
    steps: int | None = None  # None means `epochs` epochs
    epoch_decay: float = 0.999  # gamma of ExponentialLR, which the paper names without gamma
    noise_levels: int = 10  # T: noisy versions of each graph and step
    temperature: float = 0.5  # of the Concrete sample, λ
    max_nodes: int = 128  # of a graph; larger graphs give connected parts

    def __post_init__(self) -> None:
        for field in ("hidden", "blocks", "batch_graphs", "epochs", "noise_levels", "max_nodes"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} must be at least 1, got {getattr(self, field)}")
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}")
        if self.alpha < 0 or self.learning_rate <= 0 or self.temperature <= 0:
            raise ValueError(
                "alpha must not be negative, learning_rate and temperature must be positive, "
                f"got {self.alpha}, {self.learning_rate}, {self.temperature}"
            )
        if not 0 < self.epoch_decay <= 1:
            raise ValueError(f"epoch_decay must be in (0, 1], got {self.epoch_decay}")

    @property
    def has_counterfactual_loss(self) -> bool:
        return self.objective is Objective.COUNTERFACTUAL and self.alpha > 0

    def shape(self, features: int, *, marked: bool = False) -> PaperShape:
        return PaperShape(features, self.hidden, self.blocks, marked)

    def steps_per_epoch(self, graphs: int) -> int:
        """The last batch of an epoch may be smaller."""
        return -(-graphs // self.batch_graphs)

    def total_steps(self, graphs: int) -> int:
        return self.epochs * self.steps_per_epoch(graphs) if self.steps is None else self.steps

    def rate_at(self, step: int, graphs: int) -> float:
        """The learning rate of a step: ExponentialLR, stepped once per epoch."""
        epoch = step // self.steps_per_epoch(graphs)
        return float(self.learning_rate * self.epoch_decay**epoch)


@dataclass(frozen=True)
class PrintedSize:
    hidden: int
    blocks: int
    batch_graphs: int
    alpha: float


# The paper's table "Optimal parameters for each dataset" (appendix E.3), by our names of the sets.
PRINTED_SIZES = {
    "ba_shapes": PrintedSize(64, 6, 4, 0.005),
    "tree_cycle": PrintedSize(64, 6, 32, 0.1),
    "tree_grids": PrintedSize(128, 8, 32, 0.05),
    "cornell": PrintedSize(128, 6, 4, 0.05),
    "ba3motif": PrintedSize(128, 6, 32, 0.05),
    "mutagenicity": PrintedSize(64, 6, 2, 0.001),
    "bbbp": PrintedSize(128, 6, 16, 0.005),
    "nci1": PrintedSize(128, 6, 32, 0.01),
}
