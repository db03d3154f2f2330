"""Gates: thresholds on the figures of an evaluation and of a comparison, for the CI of models."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from d4explain.contracts.errors import InvalidInput
from d4explain.contracts.evaluations.requests import Noise
from d4explain.contracts.evaluations.results import ComparisonResult, EvaluationResult

Bound = Literal["value", "low", "high"]


class GatePart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Threshold(GatePart):
    """Limits of one figure; `bound` says whether its value or an end of its interval counts."""

    figure: str
    explainer: str | None = None  # not for `accuracy`; the only one if not given
    min: float | None = None
    max: float | None = None
    bound: Bound = "value"

    @model_validator(mode="after")
    def _has_a_limit(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("give `min`, `max` or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"`min` {self.min:g} is above `max` {self.max:g}")
        return self


class ComparisonGate(GatePart):
    """What a comparison must not find."""

    id: str | None = None
    fail_if_worse: list[str] | None = None  # None: every figure
    fail_if_moved: list[str] = Field(default_factory=list)
    noise: Noise = "retraining"  # which noise the comparison must allow for


class EvaluationGate(GatePart):
    id: str | None = None


class Gate(GatePart):
    evaluation: EvaluationGate = EvaluationGate()
    comparison: ComparisonGate | None = None
    threshold: Annotated[list[Threshold], Field(max_length=200)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _checks_something(self) -> Self:
        if self.comparison is None and not self.threshold:
            raise ValueError("the gate checks nothing; add [[threshold]] or [comparison]")
        return self


class Check(GatePart):
    """One check of a gate and what it found."""

    passed: bool
    text: str  # one sentence
    doubtful: bool = False  # it passed, but the interval of the figure reaches beyond the limit


def parse_gate(text: str) -> Gate:
    """Reads TOML; raises InvalidInput with what is wrong and where."""
    try:
        return Gate.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"the gate is not TOML: {error}", pointer="") from error
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise InvalidInput(f"the gate is wrong{f' at {at}' if at else ''}: {message}") from error


def check_thresholds(thresholds: Sequence[Threshold], result: EvaluationResult) -> list[Check]:
    """One check per limit. A figure that was not measured fails: it cannot be within its limits."""
    return [check for threshold in thresholds for check in _check_threshold(threshold, result)]


def check_comparison(gate: ComparisonGate, result: ComparisonResult) -> list[Check]:
    checks = []
    if gate.noise == "retraining" and result.noise != "retraining":
        text = (
            "the comparison does not allow for the noise of retraining, which the gate asks for; "
            'give `retrained` evaluations, or set noise = "instances" in the gate'
        )
        checks.append(Check(passed=False, text=text))
    compared = {moved.figure: moved for moved in result.figures}
    worse = [*compared] if gate.fail_if_worse is None else gate.fail_if_worse
    for name in dict.fromkeys([*worse, *gate.fail_if_moved]):
        if name not in compared:
            text = f"{name} was not compared, or is equal for all instances"
            is_fault = name not in FIGURES_OF_COMPARISONS
            checks.append(Check(passed=not is_fault, text=text))
            continue
        moved = compared[name]
        crossed = (name in worse and bool(moved.worse)) or (
            name in gate.fail_if_moved and moved.moved
        )
        verb = "got worse" if moved.worse else "moved" if moved.moved else "did not move"
        checks.append(
            Check(
                passed=not crossed,
                text=f"{name} {verb}: {moved.candidate:.4g} instead of {moved.expected:.4g}, "
                f"corrected p {moved.corrected_p_value:.2g}",
            )
        )
    return checks


# A test compares them with `models.evaluation.comparison`, which needs torch.
FIGURES_OF_COMPARISONS = (
    *("accuracy", "validity", "one_edit_share", "cf_acc_auc", "edits", "brittle_share"),
    *("typicality", "robustness", "stability", "gnn_evaluations"),
)


def _check_threshold(threshold: Threshold, result: EvaluationResult) -> list[Check]:
    name, value = _figure(threshold, result)
    if value is None:
        return [Check(passed=False, text=f"{name} was not measured")]
    end = "" if threshold.bound == "value" else f" ({threshold.bound} end of the interval)"
    checks = []
    if threshold.min is not None:
        passed = value >= threshold.min
        text = f"{name}{end} {value:.4g} {'≥' if passed else '<'} min {threshold.min:g}"
        low = _end(threshold, result, "low")
        checks.append(_checked(text, passed, doubtful=low is not None and low < threshold.min))
    if threshold.max is not None:
        passed = value <= threshold.max
        text = f"{name}{end} {value:.4g} {'≤' if passed else '>'} max {threshold.max:g}"
        high = _end(threshold, result, "high")
        checks.append(_checked(text, passed, doubtful=high is not None and high > threshold.max))
    return checks


def _checked(text: str, passed: bool, *, doubtful: bool) -> Check:
    if passed and doubtful:
        return Check(passed=True, text=f"{text}, but its interval reaches beyond", doubtful=True)
    return Check(passed=passed, text=text)


def _end(threshold: Threshold, result: EvaluationResult, bound: Bound) -> float | None:
    """An end of the interval; None if the threshold is about an end already."""
    if threshold.bound != "value":
        return None
    return _figure(threshold.model_copy(update={"bound": bound}), result)[1]


def _figure(threshold: Threshold, result: EvaluationResult) -> tuple[str, float | None]:
    """The name of a figure for messages and its value, or None if it was not measured."""
    if threshold.figure == "accuracy":
        return "accuracy", _bound(result.accuracy, threshold.bound)
    by_name = {one.explainer: one for one in result.explainers}
    explainer = threshold.explainer
    if explainer is None and len(by_name) == 1:
        (explainer,) = by_name
    if explainer not in by_name:
        wanted = "no explainer" if explainer is None else repr(explainer)
        raise InvalidInput(
            f"the threshold of {threshold.figure} names {wanted}; the evaluation has "
            f"{', '.join(by_name)}"
        )
    found = by_name[explainer]
    if threshold.figure not in _figures_of(found):
        raise InvalidInput(
            f"there is no figure {threshold.figure!r}; there are accuracy, "
            f"{', '.join(_figures_of(found))}"
        )
    name = f"{threshold.figure} of {explainer}"
    value = getattr(found, threshold.figure)
    if threshold.figure == "mmd":
        return name, None if value is None else value.sum
    if threshold.figure == "c2st":
        end = "auc" if threshold.bound == "value" else threshold.bound
        return name, None if value is None else getattr(value, end)
    return name, value if isinstance(value, float) else _bound(value, threshold.bound)


_NO_FIGURES = frozenset(
    {"explainer", "verdicts", "curve", "edit_histogram", "flips", "classes", "recurring_edits"}
)


def _figures_of(result: BaseModel) -> list[str]:
    return [name for name in type(result).model_fields if name not in _NO_FIGURES]


def _bound(figure: BaseModel | None, bound: Bound) -> float | None:
    if figure is None:
        return None
    value: float = getattr(figure, bound)
    return value
