"""Summaries of counterfactual answers."""

from __future__ import annotations

import pytest

from d4explain.contracts.counterfactual_results import CounterfactualAnswer, CounterfactualResult
from service import examples
from worker.reporting.summaries import summary

FOUND = CounterfactualResult.model_validate(examples.EXPLANATION["result"]).answers[0]


def answer(predicted: int, *, found: bool) -> CounterfactualAnswer:
    prediction = FOUND.prediction.model_copy(update={"predicted_class": predicted})
    missed = {} if found else {"found": False, "counterfactuals": []}
    return FOUND.model_copy(update={"prediction": prediction, **missed})


@pytest.mark.parametrize(
    ("target", "already", "rate"), [(None, 0, 0.25), (1, 2, 0.5), (0, 2, 0.5), (2, 0, 0.25)]
)
def test_the_flip_rate_counts_only_graphs_without_the_target_class(
    target: int | None, already: int, rate: float
) -> None:
    """Four graphs, two of each class; one of the graphs that may flip does."""
    flips = 0 if target != 0 else 1  # the class of the graph that flips
    answers = [answer(flips, found=True), answer(flips, found=False)]
    answers += [answer(1 - flips, found=False)] * 2
    figures = summary(answers, target)
    assert (figures.graph_count, figures.found_count, figures.already_count) == (4, 1, already)
    assert figures.flip_rate == rate


def test_there_is_no_flip_rate_if_all_graphs_have_the_target_class() -> None:
    assert summary([answer(1, found=False)], 1).flip_rate is None
