"""Holds answers against judges and the reference set, and says why they stand in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch

from models.counterfactual.panel import Panel
from models.counterfactual.result import AnswerOrder, FoundCounterfactual
from models.graphs.base_edit_space import BaseEditSpace, EditSet
from models.graphs.edits import EditSpace
from models.realism.reference_patterns import InputPatterns, UnseenPattern
from models.witnesses.transfer import Judges, Transfer


class AnswerJudge:
    """Judges the answers of one input graph."""

    def __init__(
        self,
        panel: Panel | None,
        space: BaseEditSpace,
        *,
        old_class: int,
        device: torch.device,
    ) -> None:
        self._panel = panel or Panel()
        self._space = space
        self._old_class = old_class
        self._device = device
        self._judges: Judges | None = None
        dense, reference = space.dense_form, self._panel.patterns
        self.patterns: InputPatterns | None = None
        if dense is not None and reference is not None:
            self.patterns = InputPatterns(reference, dense.graph)

    def count_unseen(self, edit_sets: Sequence[EditSet]) -> list[int]:
        """Number of unseen patterns after each set; 0 if nothing is known of the data."""
        return [len(patterns) for patterns in self._unseen(edit_sets)]

    def judged(
        self,
        answers: Sequence[FoundCounterfactual],
        edit_sets: Sequence[EditSet],
        aim: Literal["minimal", "believable"],
        convinced: Sequence[int] | None = None,  # selection witnesses, of each set
    ) -> tuple[FoundCounterfactual, ...]:
        """The answers with transfer, unseen patterns and order, in the given order."""
        if not answers:
            return ()
        unseen = self._unseen(edit_sets)
        shifts = self._space.statistics_shift(edit_sets)
        witnesses = len(self._panel.selection) if convinced is not None else None
        orders = [
            AnswerOrder(
                edits=len(edits),
                unseen=None if self.patterns is None else len(patterns),
                convinced=None if convinced is None else convinced[position],
                witnesses=witnesses,
                statistics_shift=shift,
                reason="",
            )
            for position, (edits, patterns, shift) in enumerate(
                zip(edit_sets, unseen, shifts, strict=True)
            )
        ]
        return with_reasons(
            [
                replace(answer, aim=aim, transfer=transfer, unseen=patterns, order=order)
                for answer, transfer, patterns, order in zip(
                    answers, self._transfers(answers), unseen, orders, strict=True
                )
            ]
        )

    def _transfers(self, answers: Sequence[FoundCounterfactual]) -> list[Transfer | None]:
        if not self._panel.judges:
            return [None] * len(answers)
        if self._judges is None:
            self._judges = Judges(self._panel.judges, self._space.graph, self._device)
        new_classes = [int(answer.probabilities.argmax()) for answer in answers]
        graphs = [answer.graph for answer in answers]
        return [*self._judges.transfers(graphs, self._old_class, new_classes)]

    def _unseen(self, edit_sets: Sequence[EditSet]) -> list[tuple[UnseenPattern, ...]]:
        space: EditSpace | None = self._space.dense_form
        if self.patterns is None or space is None:
            return [() for _ in edit_sets]
        return [self.patterns.unseen(space.adjacency([edits])[0].cpu()) for edits in edit_sets]


def with_reasons(answers: Sequence[FoundCounterfactual]) -> tuple[FoundCounterfactual, ...]:
    """The answers of one list, each with the reason for its place after the previous one."""
    explained = []
    previous: AnswerOrder | None = None
    for answer in answers:
        order = answer.order
        if order is not None:
            order = replace(order, reason=_reason(order, previous))
        explained.append(replace(answer, order=order))
        previous = order
    return tuple(explained)


def _reason(order: AnswerOrder, previous: AnswerOrder | None) -> str:
    """One line: what decided the place of an answer after the previous one."""
    edits = f"{order.edits} edit{'s' if order.edits != 1 else ''}"
    if previous is None:
        return f"First: no other answer has fewer than {edits}."
    if order.edits > previous.edits:
        return f"After answers with fewer edits: {edits} instead of {previous.edits}."
    if order.unseen is not None and previous.unseen is not None and order.unseen > previous.unseen:
        return (
            f"After answers of {edits} with fewer unseen patterns: "
            f"{order.unseen} instead of {previous.unseen}."
        )
    if order.statistics_shift <= previous.statistics_shift:
        return f"After an answer of {edits} that is as good; ties go by node number."
    return (
        f"After answers of {edits} that change degrees, clustering and spectrum less: "
        f"{order.statistics_shift:.3g} instead of {previous.statistics_shift:.3g}."
    )
