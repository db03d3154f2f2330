"""What moved between two evaluations of the same instances, beyond noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from models.evaluation.answers import InstanceAnswer
from models.evaluation.curves import cf_acc_scores
from models.evaluation.significance import (
    MIN_TRAININGS,
    PERMUTATIONS,
    holm,
    paired_difference,
    retraining_difference,
)


class Worse(Enum):
    """The side to which a figure gets worse."""

    LOWER = "lower"
    HIGHER = "higher"
    NONE = "none"  # it says that something changed, not what is better


@dataclass(frozen=True)
class ComparedFigure:
    """The mean of one number per instance; None where an instance has none."""

    of: Callable[[InstanceAnswer], float | bool | int | None]
    worse_gnn: Worse  # for a new version of the GNN, by the same explainer
    worse_explainer: Worse  # for another explainer of the same GNN


def _is_brittle(answer: InstanceAnswer) -> bool | None:
    if answer.verdict not in ("meaningful", "brittle"):
        return None
    return answer.verdict == "brittle"


FIGURES: Mapping[str, ComparedFigure] = {
    "accuracy": ComparedFigure(
        lambda answer: None if answer.label is None else answer.label == answer.old_class,
        Worse.LOWER,
        Worse.NONE,
    ),
    # A GNN that is flipped more often, or by fewer edits, changes its mind more easily. The same of
    # an explainer means that it finds more.
    "validity": ComparedFigure(lambda answer: answer.found, Worse.HIGHER, Worse.LOWER),
    "one_edit_share": ComparedFigure(lambda answer: answer.edits == 1, Worse.HIGHER, Worse.LOWER),
    "cf_acc_auc": ComparedFigure(
        lambda answer: float(cf_acc_scores([answer])[0]), Worse.HIGHER, Worse.LOWER
    ),
    "edits": ComparedFigure(lambda answer: answer.edits, Worse.LOWER, Worse.HIGHER),
    "brittle_share": ComparedFigure(_is_brittle, Worse.HIGHER, Worse.HIGHER),
    "typicality": ComparedFigure(lambda answer: answer.typicality, Worse.NONE, Worse.LOWER),
    "robustness": ComparedFigure(
        lambda answer: answer.robust_share_before, Worse.LOWER, Worse.NONE
    ),
    "stability": ComparedFigure(lambda answer: answer.stability, Worse.NONE, Worse.LOWER),
    "gnn_evaluations": ComparedFigure(
        lambda answer: answer.gnn_evaluations, Worse.NONE, Worse.HIGHER
    ),
}


@dataclass(frozen=True)
class MovedFigure:
    name: str
    baseline: float
    candidate: float
    expected: float  # the baseline, or the mean of the trainings
    difference: float  # candidate minus expected
    low: float  # 95 % bootstrap interval of candidate minus baseline
    high: float
    effect: float | None
    deviation: float | None  # of the trainings
    p_value: float
    corrected_p_value: float
    moved: bool
    worse: bool | None  # None if it has no worse side
    instances: int


def compare(
    baseline: Sequence[InstanceAnswer],
    candidate: Sequence[InstanceAnswer],
    *,
    retrained: Sequence[Sequence[InstanceAnswer]] = (),
    same_gnn: bool,
    alpha: float,
    seed: int,
) -> list[MovedFigure]:
    """All figures that both evaluations have; the answers are of the same instances, in order.

    With `retrained`, the candidate is compared with the trainings of the baseline's recipe: the
    baseline and these. Without, instances are the only noise. Figures that are equal for every
    instance of every evaluation take no part in Holm's correction: they cannot move.
    """
    trainings = [baseline, *retrained]
    if retrained and len(trainings) < MIN_TRAININGS:
        raise ValueError(f"give at least {MIN_TRAININGS - 1} retrained evaluations")
    tested: list[MovedFigure] = []
    for name, figure in FIGURES.items():
        values = [_values(figure, answers) for answers in (*trainings, candidate)]
        both = ~values[0].isnan() & ~values[-1].isnan()
        means = [float(value.nanmean()) for value in values]
        if int(both.sum()) < 2 or any(math.isnan(mean) for mean in means):
            continue
        if _is_constant(values):
            continue
        pair = paired_difference(
            values[0][both],
            values[-1][both],
            seed=seed,
            permutations=0 if retrained else PERMUTATIONS,  # its p value is then not used
        )
        common = {
            "name": name,
            "baseline": means[0],
            "candidate": means[-1],
            "low": pair.low,
            "high": pair.high,
            "corrected_p_value": 1.0,
            "moved": False,
            "worse": None,
            "instances": pair.count,
        }
        if retrained:
            spread = retraining_difference(
                means[:-1],
                means[-1],
                standard_error=pair.standard_error,
                instances=pair.count,
            )
            tested.append(
                MovedFigure(
                    **common,  # type: ignore[arg-type]
                    expected=spread.expected,
                    difference=spread.difference,
                    effect=spread.effect,
                    deviation=spread.deviation,
                    p_value=spread.p_value,
                )
            )
        else:
            tested.append(
                MovedFigure(
                    **common,  # type: ignore[arg-type]
                    expected=means[0],
                    difference=pair.difference,
                    effect=pair.effect,
                    deviation=None,
                    p_value=pair.p_value,
                )
            )
    return _corrected(tested, same_gnn=same_gnn, alpha=alpha)


def agreement(baseline: Sequence[InstanceAnswer], candidate: Sequence[InstanceAnswer]) -> float:
    """The share of instances to which both GNNs give one class."""
    same = [
        one.old_class == other.old_class for one, other in zip(baseline, candidate, strict=True)
    ]
    return sum(same) / len(same)


def _corrected(tested: list[MovedFigure], *, same_gnn: bool, alpha: float) -> list[MovedFigure]:
    corrected = holm([figure.p_value for figure in tested])
    result = []
    for figure, p_value in zip(tested, corrected, strict=True):
        moved = p_value < alpha
        compared = FIGURES[figure.name]
        side = compared.worse_explainer if same_gnn else compared.worse_gnn
        worse = None
        if side is not Worse.NONE:
            worse = moved and (figure.difference > 0) == (side is Worse.HIGHER)
        values = vars(figure) | {"corrected_p_value": p_value, "moved": moved, "worse": worse}
        result.append(MovedFigure(**values))
    return result


def _values(figure: ComparedFigure, answers: Sequence[InstanceAnswer]) -> Tensor:
    """[instance]; NaN where an instance has none."""
    values = [figure.of(answer) for answer in answers]
    return torch.tensor(
        [math.nan if value is None else float(value) for value in values], dtype=torch.float64
    )


def _is_constant(values: Sequence[Tensor]) -> bool:
    known = torch.cat([value[~value.isnan()] for value in values])
    return bool((known == known[0]).all())
