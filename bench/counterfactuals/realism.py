"""Realism of all methods' answers: unseen patterns, and C2ST on shared flips with a control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from bench.counterfactuals.c2st import MIN_PAIRS, Discriminator, Distinguishability
from bench.counterfactuals.figures import MethodResult, toggle_pairs
from d4explain.gnn.graphs import Graph, to_dense
from models.realism.reference_patterns import InputPatterns, ReferencePatterns

RANDOM_CONTROL = "random"
_MIN_FLIP_RATE = 0.5  # of a method that decides which instances are shared


@dataclass(frozen=True)
class RealismFigures:
    """C2ST of one method, and of untouched graphs; None if it was not measured."""

    c2st: float | None = None
    c2st_low: float | None = None  # 95 % bootstrap interval over instances
    c2st_high: float | None = None
    c2st_n: int | None = None  # instances
    c2st_untouched: float | None = None
    c2st_constant_folds: int | None = None  # of its discriminators that learned nothing


@dataclass(frozen=True)
class UnseenFigures:
    """Answers that the rule on node types forbids, all alternatives counted."""

    answers: int
    unseen_answers: int  # with a degree unseen for its node type, or types that never meet


def count_unseen(answers: Sequence[MethodResult], reference: ReferencePatterns) -> UnseenFigures:
    """Graphs without bond orders break a valence only by an unseen degree, so that is counted."""
    total, unseen = 0, 0
    for answer in answers:
        patterns = InputPatterns(reference, answer.instance.graph)
        for edits in answer.found:
            graph = toggle_pairs(answer.instance.graph, edits)
            found = patterns.unseen(to_dense([graph]).adjacency[0])
            total += 1
            unseen += any(pattern.kind in ("degree", "edge") for pattern in found)
    return UnseenFigures(total, unseen)


@dataclass(frozen=True)
class Realism:
    by_method: Mapping[str, RealismFigures]
    untouched: Distinguishability | None
    remark: str


def measure_realism(
    answers: Mapping[str, Sequence[MethodResult]],
    held_out: Sequence[Graph],
    discriminator: Discriminator,
    *,
    seed: int,
) -> Realism:
    """C2ST of every method on the instances that all of them flip.

    The control `random` and methods that flip less than half of the instances do not decide which
    instances are shared, because they would leave too few; they are measured on those that they
    flip, too.
    """
    shared = shared_flips(answers)
    originals = _originals(answers, shared)
    untouched = discriminator.compare(
        *_same_number(originals, held_out, seed), label="C2ST of untouched graphs"
    )
    by_method = {}
    for name, method_answers in answers.items():
        flips = [method_answers[index] for index in shared if method_answers[index].found]
        result = discriminator.compare(
            [answer.instance.graph for answer in flips],
            [toggle_pairs(answer.instance.graph, answer.found[0]) for answer in flips],
            label=f"C2ST of {name}",
        )
        by_method[name] = RealismFigures(
            c2st=result.auc if result else None,
            c2st_low=result.low if result else None,
            c2st_high=result.high if result else None,
            c2st_n=len(flips),
            c2st_untouched=untouched.auc if untouched else None,
            c2st_constant_folds=result.constant_folds if result else None,
        )
    deciding = ", ".join(_deciding_methods(answers))
    remark = f"C2ST: on {len(shared)} instances that {deciding} flip"
    if len(shared) < MIN_PAIRS:
        remark += f"; fewer than {MIN_PAIRS} are too few to measure it"
    collapsed = [name for name, figures in by_method.items() if figures.c2st_constant_folds]
    if collapsed:
        # Such a fold counts 0.5 whatever the answers look like.
        remark += f"; too low for {', '.join(collapsed)}, where some discriminators learned nothing"
    return Realism(by_method, untouched, f"{remark}.")


def no_realism(methods: Sequence[str], remark: str) -> Realism:
    return Realism(dict.fromkeys(methods, RealismFigures()), None, remark)


def shared_flips(answers: Mapping[str, Sequence[MethodResult]]) -> list[int]:
    """Positions of the instances that all deciding methods flip."""
    deciding = [answers[name] for name in _deciding_methods(answers)]
    count = len(deciding[0])
    return [index for index in range(count) if all(one[index].found for one in deciding)]


def _deciding_methods(answers: Mapping[str, Sequence[MethodResult]]) -> list[str]:
    """Methods that flip at least half, without the control; all methods if there is none."""
    names = [
        name
        for name, method_answers in answers.items()
        if name != RANDOM_CONTROL
        and sum(bool(answer.found) for answer in method_answers)
        >= _MIN_FLIP_RATE * len(method_answers)
    ]
    return names or list(answers)


def _originals(
    answers: Mapping[str, Sequence[MethodResult]], positions: Sequence[int]
) -> list[Graph]:
    first = next(iter(answers.values()))
    return [first[index].instance.graph for index in positions]


def _same_number(
    originals: Sequence[Graph], held_out: Sequence[Graph], seed: int
) -> tuple[list[Graph], list[Graph]]:
    """As many originals as random held-out graphs."""
    count = min(len(originals), len(held_out))
    order = torch.randperm(len(held_out), generator=torch.Generator().manual_seed(seed))
    return list(originals[:count]), [held_out[index] for index in order[:count].tolist()]
