"""Summarises the answers of a counterfactual explanation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Literal

from d4explain.contracts.counterfactual_results import (
    Counterfactual,
    CounterfactualAnswer,
    Summary,
)
from d4explain.contracts.requests import Aim
from worker.reporting.documents import rounded

ALL_VERDICTS: tuple[Literal["meaningful", "brittle", "unjudged"], ...] = (
    "meaningful",
    "brittle",
    "unjudged",
)


def summary(answers: Sequence[CounterfactualAnswer], target_class: int | None) -> Summary:
    """Averages over the best counterfactual of each graph that has one.

    The flip rate leaves out graphs that have the target class already: nothing could flip them.
    """
    already = sum(answer.prediction.predicted_class == target_class for answer in answers)
    asked = len(answers) - already
    best = [answer.counterfactuals[0] for answer in answers if answer.found]
    edits = [edit for counterfactual in best for edit in counterfactual.edits]

    verdicts = [counterfactual.verdict for counterfactual in best]
    judged = len(verdicts) - verdicts.count("unjudged")

    def mean(value: Callable[[Counterfactual], float]) -> float | None:
        return rounded(fmean(value(counterfactual) for counterfactual in best)) if best else None

    return Summary(
        graph_count=len(answers),
        found_count=len(best),
        already_count=already,
        flip_rate=rounded(len(best) / asked) if asked else None,
        mean_edits=mean(lambda counterfactual: len(counterfactual.edits)),
        mean_modification_ratio=mean(lambda counterfactual: counterfactual.modification_ratio),
        mean_fidelity=mean(lambda counterfactual: counterfactual.fidelity),
        mean_confidence=mean(lambda counterfactual: counterfactual.confidence),
        edits_by_denoiser=sum(edit.proposed_by == "denoiser" for edit in edits),
        edits_by_search=sum(edit.proposed_by == "search" for edit in edits),
        verdicts={verdict: verdicts.count(verdict) for verdict in ALL_VERDICTS},
        transfer_ratio=rounded(verdicts.count("meaningful") / judged) if judged else None,
    )


def aim_warnings(aim: Aim, answers: Sequence[CounterfactualAnswer]) -> list[str]:
    """Warns about minimal answers where believable ones were requested."""
    if aim == "minimal":
        return []
    minimal = sum(
        any(found.aim == "minimal" for found in answer.counterfactuals) for answer in answers
    )
    if not minimal:
        return []
    return [
        f"{minimal} of {len(answers)} graphs are too large to search for believable answers: "
        "theirs are minimal"
    ]
