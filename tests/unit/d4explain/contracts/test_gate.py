"""Gates: what they read, what they refuse and which thresholds are crossed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from d4explain.contracts.errors import InvalidInput
from d4explain.contracts.evaluations.gate import (
    ComparisonGate,
    check_comparison,
    check_thresholds,
    parse_gate,
)
from d4explain.contracts.evaluations.results import ComparisonResult, EvaluationResult
from service import examples

RESULT = EvaluationResult.model_validate(examples.EVALUATION["result"])
COMPARED: dict[str, Any] = examples.COMPARISON["result"]


def passed(toml: str) -> list[bool]:
    gate = parse_gate(f"[[threshold]]\n{toml}")
    return [check.passed for check in check_thresholds(gate.threshold, RESULT)]


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ('figure = "validity"\nmin = 0.9', [True]),
        ('figure = "validity"\nmin = 0.96', [False]),
        ('figure = "validity"\nmin = 0.9\nbound = "low"', [False]),
        ('figure = "validity"\nmin = 0.9\nmax = 0.94', [True, False]),
        ('figure = "accuracy"\nmin = 0.97', [True]),
        ('figure = "accuracy"\nmin = 0.97\nbound = "low"', [False]),
        ('figure = "na"\nmax = 0.4', [True]),
        ('figure = "ceiling"\nmax = 0.9', [True]),
        ('figure = "mmd"\nmax = 0.1', [False]),
        ('figure = "stability"\nmin = 0.0', [False]),  # it was not measured
    ],
)
def test_thresholds(toml: str, expected: list[bool]) -> None:
    assert passed(toml) == expected


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("", "checks nothing"),
        ("[[threshold]]\nfigure = 'validity'", "give `min`, `max` or both"),
        ("[[threshold]]\nfigure = 'validity'\nmin = 2\nmax = 1", "above `max`"),
        ("[[threshold]]\nmin = 1", "threshold.0.figure"),
        ("[[threshold]]\nfigure = 'validity'\nmin = 1\nword = 1", "threshold.0.word"),
        ("[[threshold]]\nfigure = 'validity'\nmin = nan", "finite"),
        ("threshold", "not TOML"),
        ("[comparison]\nnoise = 'none'", "comparison.noise"),
    ],
)
def test_a_wrong_gate_says_where(toml: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_gate(toml)


@pytest.mark.parametrize("toml", ['figure = "curve"\nmin = 0', 'figure = "edit"\nmin = 0'])
def test_an_unknown_figure_is_an_error_and_not_a_pass(toml: str) -> None:
    with pytest.raises(InvalidInput, match="there is no figure"):
        passed(toml)


def test_an_unknown_explainer_is_an_error() -> None:
    with pytest.raises(InvalidInput, match="the evaluation has search"):
        passed('figure = "validity"\nexplainer = "d4"\nmin = 0')


def compared(**changes: Any) -> ComparisonResult:
    document = copy.deepcopy(COMPARED)
    document["figures"][0] |= changes
    return ComparisonResult.model_validate(document)


def test_a_comparison_fails_if_something_got_worse() -> None:
    [check] = check_comparison(ComparisonGate(), compared())
    assert not check.passed
    assert check.text == "accuracy got worse: 0.8 instead of 0.97, corrected p 0.0077"
    better = compared(worse=False)
    assert all(one.passed for one in check_comparison(ComparisonGate(), better))
    moved = ComparisonGate(fail_if_worse=[], fail_if_moved=["accuracy"])
    assert not all(one.passed for one in check_comparison(moved, better))
    other = ComparisonGate(fail_if_worse=["robustness"])
    assert all(one.passed for one in check_comparison(other, compared()))


def test_a_misspelt_figure_of_a_comparison_fails_the_gate() -> None:
    [check] = check_comparison(ComparisonGate(fail_if_worse=["acuracy"]), compared())
    assert not check.passed


def test_a_gate_for_retraining_refuses_a_comparison_without_it() -> None:
    without = ComparisonResult.model_validate({**COMPARED, "noise": "instances", "trainings": 1})
    checks = check_comparison(ComparisonGate(fail_if_worse=[]), without)
    assert [check.passed for check in checks] == [False]
    assert check_comparison(ComparisonGate(fail_if_worse=[], noise="instances"), without) == []


@pytest.mark.parametrize(
    ("toml", "doubtful"),
    [
        ('figure = "validity"\nmin = 0.9', True),  # 0.95, from 0.875
        ('figure = "validity"\nmin = 0.87', False),
        ('figure = "validity"\nmin = 0.9\nbound = "high"', False),  # about an end already
        ('figure = "validity"\nmin = 0.96', False),  # it failed
        ('figure = "edits"\nmax = 1.9', True),  # 1.7, up to 2.0
        ('figure = "ceiling"\nmax = 0.9', False),  # no interval
    ],
)
def test_a_figure_whose_interval_reaches_beyond_the_limit_is_doubtful(
    toml: str, doubtful: bool
) -> None:
    [check] = check_thresholds(parse_gate(f"[[threshold]]\n{toml}").threshold, RESULT)
    assert check.doubtful is doubtful
    assert check.text.endswith("but its interval reaches beyond") is doubtful
