"""Typicality of the input graph and the counterfactuals of one answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from d4explain.contracts import results
from d4explain.contracts.counterfactual_results import Counterfactual, CounterfactualAnswer
from d4explain.gnn.graphs import Graph
from models.counterfactual.explain import CounterfactualOutcome
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.diffusion.typicality import NoTypicality, Typicality, typicalities
from worker.reporting.documents import rounded


@dataclass(frozen=True)
class AnswerTypicality:
    original: results.Typicality | None
    counterfactuals: tuple[results.Typicality | None, ...]  # one per counterfactual
    minimal: tuple[results.Typicality | None, ...]  # one per minimal answer beside them
    reason: str | None = None  # why the original has none; None without a denoiser

    def added_to(self, answer: CounterfactualAnswer) -> CounterfactualAnswer:
        """`answer` has the same counterfactuals in the same order."""
        update = {
            "typicality": self.original,
            "counterfactuals": _with_figures(answer.counterfactuals, self.counterfactuals),
            "minimal": _with_figures(answer.minimal, self.minimal),
        }
        return answer.model_copy(update=update)


def _with_figures(
    answers: Sequence[Counterfactual], figures: Sequence[results.Typicality | None]
) -> list[Counterfactual]:
    return [
        answer.model_copy(update={"typicality": figure})
        for answer, figure in zip(answers, figures, strict=True)
    ]


def answer_typicality(
    denoiser: EdgeDenoiser | None,
    graph: Graph,
    outcome: CounterfactualOutcome,
    device: torch.device,
) -> AnswerTypicality:
    """`graph` is the edited graph: the posted one, or the neighbourhood of a node in it."""
    count = len(outcome.found)
    unknown = (None,) * count, (None,) * len(outcome.minimal)
    if denoiser is None:
        return AnswerTypicality(None, *unknown)
    if outcome.candidates is not None:
        return AnswerTypicality(None, *unknown, "the graph is too large to read as a whole")
    answers = [*outcome.found, *outcome.minimal]
    figures = typicalities(denoiser, [graph, *(found.graph for found in answers)], device)
    original, *edited = figures
    documents = [_document(figure) for figure in edited]
    return AnswerTypicality(
        _document(original),
        tuple(documents[:count]),
        tuple(documents[count:]),
        original.reason if isinstance(original, NoTypicality) else None,
    )


def typicality_warnings(answers: Sequence[AnswerTypicality]) -> list[str]:
    """One warning for each reason why graphs have no typicality."""
    reasons = Counter(answer.reason for answer in answers if answer.reason is not None)
    return [
        f"no typicality for {count} of {len(answers)} answers: {reason}"
        for reason, count in reasons.items()
    ]


def _document(figure: Typicality | NoTypicality) -> results.Typicality | None:
    if isinstance(figure, NoTypicality):
        return None
    return results.Typicality(
        value=rounded(figure.value), low=figure.low, calibration_graphs=figure.calibration_graphs
    )
