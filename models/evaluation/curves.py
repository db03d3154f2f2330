"""CF-ACC and fidelity curves as means of one score per instance.

The area under a curve of shares is the mean of the areas of the instances' own curves, which are
steps from 0 to 1. So areas have bootstrap intervals, and two explainers can be compared in pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.evaluation.answers import InstanceAnswer
from models.metrics.scores import CurveRule, Instance, cf_acc_auc, cf_acc_curve

RATIOS = tuple(step / 30 for step in range(10))  # 0, 1/30, …, 0.3, as in `models.metrics.scores`


@dataclass(frozen=True)
class Curves:
    """One value per modification ratio of `RATIOS`."""

    strict: Tensor  # share of instances with an answer of at most this ratio
    one_edit: Tensor  # the same if one edit is always allowed
    ceiling: Tensor  # `strict` if one edit always flipped the GNN
    fidelity: Tensor  # mean fidelity of these answers; no answer counts as 0


def instance_curve(answer: InstanceAnswer, rule: CurveRule = CurveRule.STRICT) -> Tensor:
    """0 before the ratio of the answer and 1 from there on: [ratio]."""
    return cf_acc_curve([Instance(answer.edges, answer.edits)], rule)


def curves(answers: Sequence[InstanceAnswer]) -> Curves:
    strict = torch.stack([instance_curve(answer) for answer in answers])  # [instance, ratio]
    one_edit = torch.stack([instance_curve(answer, CurveRule.ONE_EDIT) for answer in answers])
    fidelity = torch.tensor([answer.fidelity or 0.0 for answer in answers], dtype=torch.float64)
    ceiling = torch.stack([_ceiling_curve(answer) for answer in answers])
    return Curves(
        strict.mean(0),
        one_edit.mean(0),
        ceiling.mean(0),
        (strict * fidelity[:, None]).mean(0),
    )


def cf_acc_scores(answers: Sequence[InstanceAnswer], rule: CurveRule = CurveRule.STRICT) -> Tensor:
    """The area under each instance's curve; their mean is the CF-ACC AUC: [instance]."""
    areas = [cf_acc_auc(instance_curve(answer, rule)) for answer in answers]
    return torch.tensor(areas, dtype=torch.float64)


def ceiling_scores(answers: Sequence[InstanceAnswer]) -> Tensor:
    """The same if one edit always flipped the GNN: [instance]."""
    areas = [cf_acc_auc(_ceiling_curve(answer)) for answer in answers]
    return torch.tensor(areas, dtype=torch.float64)


def _ceiling_curve(answer: InstanceAnswer) -> Tensor:
    return cf_acc_curve([Instance(answer.edges, 1)])


def fidelity_scores(answers: Sequence[InstanceAnswer]) -> Tensor:
    """The area under each instance's fidelity curve: [instance]."""
    fidelity = torch.tensor([answer.fidelity or 0.0 for answer in answers], dtype=torch.float64)
    return cf_acc_scores(answers) * fidelity
