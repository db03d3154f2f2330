"""The figures of one explainer over a test set; a pure function of its answers and a seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.evaluation.answers import InstanceAnswer
from models.evaluation.bootstrap import Figure, ratio_figure, resampled_shares
from models.evaluation.curves import (
    Curves,
    ceiling_scores,
    cf_acc_scores,
    curves,
    fidelity_scores,
)
from models.evaluation.transfer import TransferFigures, Votes, transfer_figures
from models.metrics.scores import CurveRule

LOW_TYPICALITY = 0.05  # as in `models.diffusion.typicality`


@dataclass(frozen=True)
class ExplainerFigures:
    """None where no instance has the quantity."""

    instances: int
    validity: Figure  # share of instances with an answer
    one_edit_share: Figure  # share of instances that one edit flips
    cf_acc_auc: Figure  # strict
    ceiling: Figure  # of the strict AUC
    of_ceiling: Figure | None
    cf_acc_auc_one_edit: Figure
    fidelity_auc: Figure
    fidelity: Figure | None  # mean, of the answers
    edits: Figure | None  # mean, of the answers
    ratio: Figure | None  # mean modification ratio of the answers
    connected: Figure | None  # share of the answers
    answers: Figure  # mean number per instance
    diversity: Figure | None
    brittle_share: Figure | None  # of the judged answers
    transfer: TransferFigures | None
    verdicts: dict[str, int]
    typicality_before: Figure | None
    typicality: Figure | None
    low_typicality_before: Figure | None  # share below 0.05
    low_typicality: Figure | None
    robustness: Figure | None
    robustness_before: Figure | None
    stability: Figure | None
    gnn_evaluations: Figure
    gnn_gradients: Figure
    cpu_seconds: Figure
    seconds: Figure
    curves: Curves
    edit_histogram: dict[int, int]  # number of edits → answers
    flips: dict[tuple[int, int], int]  # (class before, class after) → answers
    classes: dict[int, Figure]  # validity by the class before


Quantity = Callable[[InstanceAnswer], float | int | bool | None]


def explainer_figures(answers: Sequence[InstanceAnswer], *, seed: int) -> ExplainerFigures:
    """The same seed gives the same resamples for every explainer of the same instances."""
    shares = resampled_shares(len(answers), seed)
    every = torch.ones(len(answers), dtype=torch.float64)

    def mean(quantity: Quantity) -> Figure | None:
        """Over the instances that have it."""
        values = [quantity(answer) for answer in answers]
        among = torch.tensor([value is not None for value in values], dtype=torch.float64)
        return ratio_figure(_tensor([value or 0.0 for value in values]), among, shares)

    def mean_of_all(values: Tensor) -> Figure:
        figure = ratio_figure(values, every, shares)
        assert figure is not None  # an evaluation has at least one instance
        return figure

    strict, ceiling = cf_acc_scores(answers), ceiling_scores(answers)
    judged = [answer for answer in answers if answer.agrees]
    return ExplainerFigures(
        instances=len(answers),
        validity=mean_of_all(_tensor([answer.found for answer in answers])),
        one_edit_share=mean_of_all(_tensor([answer.edits == 1 for answer in answers])),
        cf_acc_auc=mean_of_all(strict),
        ceiling=mean_of_all(ceiling),
        of_ceiling=ratio_figure(strict, ceiling, shares),
        cf_acc_auc_one_edit=mean_of_all(cf_acc_scores(answers, CurveRule.ONE_EDIT)),
        fidelity_auc=mean_of_all(fidelity_scores(answers)),
        fidelity=mean(lambda answer: answer.fidelity),
        edits=mean(lambda answer: answer.edits),
        ratio=mean(lambda answer: answer.ratio),
        connected=mean(lambda answer: answer.connected),
        answers=mean_of_all(_tensor([answer.answer_count for answer in answers])),
        diversity=mean(lambda answer: answer.diversity),
        brittle_share=mean(_is_brittle),
        transfer=_transfer(answers, seed) if len(judged) == len(answers) else None,
        verdicts=dict(Counter(answer.verdict for answer in answers if answer.verdict)),
        typicality_before=mean(lambda answer: answer.typicality_before),
        typicality=mean(lambda answer: answer.typicality),
        low_typicality_before=mean(lambda answer: _is_low(answer.typicality_before)),
        low_typicality=mean(lambda answer: _is_low(answer.typicality)),
        robustness=mean(lambda answer: answer.robust_share),
        robustness_before=mean(lambda answer: answer.robust_share_before),
        stability=mean(lambda answer: answer.stability),
        gnn_evaluations=mean_of_all(_tensor([answer.gnn_evaluations for answer in answers])),
        gnn_gradients=mean_of_all(_tensor([answer.gnn_gradients for answer in answers])),
        cpu_seconds=mean_of_all(_tensor([answer.cpu_seconds for answer in answers])),
        seconds=mean_of_all(_tensor([answer.seconds for answer in answers])),
        curves=curves(answers),
        edit_histogram=dict(
            sorted(Counter(answer.edits for answer in answers if answer.edits is not None).items())
        ),
        flips=dict(
            sorted(
                Counter(
                    (answer.old_class, answer.new_class)
                    for answer in answers
                    if answer.new_class is not None
                ).items()
            )
        ),
        classes=_by_class(answers, shares),
    )


def _transfer(answers: Sequence[InstanceAnswer], seed: int) -> TransferFigures:
    votes = Votes(
        agrees=torch.tensor([answer.agrees for answer in answers]).T,
        flipped=torch.tensor([answer.found for answer in answers]),
        shared=torch.tensor([answer.shares for answer in answers]).T,
    )
    return transfer_figures(votes, seed=seed)


def _by_class(answers: Sequence[InstanceAnswer], shares: Tensor) -> dict[int, Figure]:
    found = _tensor([answer.found for answer in answers])
    figures = {}
    for one in sorted({answer.old_class for answer in answers}):
        among = _tensor([answer.old_class == one for answer in answers])
        figure = ratio_figure(found * among, among, shares)
        assert figure is not None
        figures[one] = figure
    return figures


def _is_brittle(answer: InstanceAnswer) -> bool | None:
    """None if the answer has no verdict."""
    if answer.verdict not in ("meaningful", "brittle"):
        return None
    return answer.verdict == "brittle"


def _is_low(typicality: float | None) -> bool | None:
    return None if typicality is None else typicality < LOW_TYPICALITY


def _tensor(values: Sequence[float | int | bool]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)
