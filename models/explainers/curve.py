"""Turns an explanation into a verified counterfactual curve: the answer within every edit count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from models.counterfactual.oracle import CounterfactualOracle
from models.explainers.interface import EdgeScores, EditedGraphs, EditOrder, Explanation
from models.graphs.base_edit_space import BaseEditSpace, EditSet
from models.metrics.scores import fidelity

_GRAPHS_PER_CHECK = 64  # verified between two checks for a stop request


@dataclass(frozen=True)
class VerifiedStep:
    """One edited graph and the sparse GNN's verdict."""

    edits: EditSet
    probabilities: Tensor  # [class]
    flips: bool


@dataclass(frozen=True)
class CounterfactualCurve:
    """The edited graphs of one explanation, by ascending number of edits."""

    before: Tensor  # [class] probabilities of the unedited graph
    steps: tuple[VerifiedStep, ...]

    @property
    def smallest_flip(self) -> VerifiedStep | None:
        return next((step for step in self.steps if step.flips), None)

    def answer(self, edits: int) -> VerifiedStep | None:
        """What the explainer answers within that many edits: its smallest flip, or its last graph.

        None if it has no graph with so few edits.
        """
        within = [step for step in self.steps if len(step.edits) <= edits]
        return next((step for step in within if step.flips), within[-1] if within else None)

    def fidelity(self, edits: int) -> float:
        """Fidelity of the answer within that many edits; 0 without one."""
        answer = self.answer(edits)
        return 0.0 if answer is None else fidelity(self.before, answer.probabilities)


def counterfactual_curve(
    oracle: CounterfactualOracle, explanation: Explanation, generator: torch.Generator
) -> CounterfactualCurve:
    """Applies the edits in order of score and verifies every prefix with the sparse GNN.

    An edit that the rules forbid is skipped, such as one that disconnects the graph. The generator
    breaks ties between scores.
    """
    space = oracle.space
    if isinstance(explanation, EditedGraphs):
        candidates = list(dict.fromkeys(edits for edits in explanation.sets if edits))
        is_allowed = space.allowed(candidates)
        sets = [edits for edits, holds in zip(candidates, is_allowed, strict=True) if holds]
        sets.sort(key=lambda edits: (len(edits), edits))
    else:
        sets = list(_prefixes(space, edit_order(space, explanation, generator)))
    before, *after = _verify(oracle, [(), *sets])
    flips = [margin > 0 for margin in oracle.verified_margins(sets)]
    steps = (
        VerifiedStep(edits, probabilities, flip)
        for edits, probabilities, flip in zip(sets, after, flips, strict=True)
    )
    return CounterfactualCurve(before, tuple(steps))


def edit_order(
    space: BaseEditSpace, explanation: EdgeScores | EditOrder, generator: torch.Generator
) -> list[int]:
    """The allowed pairs in the order in which they are toggled."""
    if isinstance(explanation, EditOrder):
        return list(explanation.pairs)
    graph = space.graph
    score_of = dict(
        zip(map(tuple, graph.edges.T.tolist()), explanation.edges.tolist(), strict=True)
    )
    ends = list(zip(space.sources.tolist(), space.targets.tolist(), strict=True))
    shuffled = torch.randperm(space.count, generator=generator).tolist()
    removals = [pair for pair in shuffled if ends[pair] in score_of]
    return sorted(removals, key=lambda pair: -score_of[ends[pair]])


def _prefixes(space: BaseEditSpace, order: Sequence[int]) -> Iterator[EditSet]:
    chosen: EditSet = ()
    for pair in order:
        if len(chosen) == space.budget:
            return
        longer = tuple(sorted((*chosen, pair)))
        if space.allowed([longer])[0]:
            chosen = longer
            yield chosen


def _verify(oracle: CounterfactualOracle, sets: Sequence[EditSet]) -> list[Tensor]:
    probabilities: list[Tensor] = []
    for start in range(0, len(sets), _GRAPHS_PER_CHECK):
        oracle.check_stop()
        probabilities += oracle.verify(sets[start : start + _GRAPHS_PER_CHECK])
    return probabilities
