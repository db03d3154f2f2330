"""Judged answers: transfer, unseen patterns and the reasons for their order."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from d4explain.gnn.graphs import Graph
from models.counterfactual.judging import AnswerJudge, with_reasons
from models.counterfactual.oracle import CounterfactualOracle, FlipGoal
from models.counterfactual.panel import Panel
from models.counterfactual.result import AnswerOrder, FoundCounterfactual, describe
from models.graphs.edits import EditRules, EditSet, EditSpace
from models.realism.reference_patterns import ReferencePatterns
from models.witnesses.transfer import Transfer
from tests.unit.models.small_gnns import edge_counter, graph_of

torch.set_num_threads(1)
CPU = torch.device("cpu")

PATH = graph_of(5, {(0, 1), (1, 2), (2, 3), (3, 4)})
GNN = edge_counter(4.5)


def space_of(graph: Graph = PATH) -> EditSpace:
    return EditSpace.of(graph, EditRules(max_ratio=10.0))


def pair(space: EditSpace, one: int, other: int) -> int:
    ends = list(zip(space.sources.tolist(), space.targets.tolist(), strict=True))
    return ends.index((one, other))


def judged(
    panel: Panel | None, edit_sets: list[EditSet], **settings: object
) -> tuple[FoundCounterfactual, ...]:
    space = space_of()
    oracle = CounterfactualOracle(GNN, space, FlipGoal(0, None), CPU)
    answers = describe(edit_sets, oracle, None, [False] * len(edit_sets))
    judge = AnswerJudge(panel, space, old_class=0, device=CPU)
    return judge.judged(answers, edit_sets, "minimal", **settings)  # type: ignore[arg-type]


def test_answers_without_a_panel_have_an_order_and_nothing_else() -> None:
    space = space_of()
    edits = (pair(space, 0, 4),)
    [answer] = judged(None, [edits])
    assert answer.transfer is None
    assert answer.unseen == ()
    assert answer.order is not None
    assert (answer.order.edits, answer.order.unseen) == (1, None)
    assert (answer.order.convinced, answer.order.witnesses) == (None, None)
    assert answer.order.statistics_shift == pytest.approx(space.statistics_shift([edits])[0])


def test_judges_and_patterns_of_the_panel_are_asked() -> None:
    space = space_of()
    ring, chord = (pair(space, 0, 4),), (pair(space, 1, 3),)
    panel = Panel(
        selection=(edge_counter(4.5),) * 3,
        judges=(edge_counter(3.5), edge_counter(4.5), edge_counter(5.5)),
        patterns=ReferencePatterns.of([PATH] * 3),
    )
    one, other = judged(panel, [ring, chord], convinced=[3, 2])
    assert one.transfer == other.transfer == Transfer(1, 2, 3)
    assert one.unseen == ()
    assert {node for pattern in other.unseen for node in pattern.nodes} == {1, 3}  # degree 3
    assert one.order is not None
    assert other.order is not None
    assert (one.order.unseen, other.order.unseen) == (0, 2)
    assert (one.order.convinced, other.order.convinced, one.order.witnesses) == (3, 2, 3)
    assert other.order.reason == (
        "After answers of 1 edit with fewer unseen patterns: 2 instead of 0."
    )


def test_no_answers_are_judged_without_asking() -> None:
    assert judged(Panel(judges=(GNN,)), []) == ()


def test_a_large_graph_has_no_patterns() -> None:
    class Large(EditSpace):
        """A space whose graphs have no dense form."""

        dense_form = None  # type: ignore[assignment]

    space = space_of()
    large = Large(**{name: getattr(space, name) for name in space.__dataclass_fields__})
    panel = Panel(patterns=ReferencePatterns.of([PATH] * 3))
    judge = AnswerJudge(panel, large, old_class=0, device=CPU)
    assert judge.patterns is None
    assert judge.count_unseen([(0,), (1,)]) == [0, 0]


def order(edits: int, unseen: int | None, shift: float) -> AnswerOrder:
    return AnswerOrder(edits, unseen, None, None, shift, "")


@pytest.mark.parametrize(
    ("previous", "own", "reason"),
    [
        (None, order(2, 0, 0.5), "First: no other answer has fewer than 2 edits."),
        (None, order(1, None, 0.5), "First: no other answer has fewer than 1 edit."),
        (
            order(1, 3, 0.9),
            order(2, 0, 0.1),
            "After answers with fewer edits: 2 edits instead of 1.",
        ),
        (
            order(2, 0, 0.9),
            order(2, 1, 0.1),
            "After answers of 2 edits with fewer unseen patterns: 1 instead of 0.",
        ),
        (
            order(1, None, 0.25),
            order(1, None, 0.5),
            "After answers of 1 edit that change degrees, clustering and spectrum less: "
            "0.5 instead of 0.25.",
        ),
        (
            order(1, 2, 0.25),
            order(1, 2, 0.25),
            "After an answer of 1 edit that is as good; ties go by node number.",
        ),
    ],
)
def test_reasons_name_the_first_quantity_that_differs(
    previous: AnswerOrder | None, own: AnswerOrder, reason: str
) -> None:
    [blank] = judged(None, [(0,)])
    orders = [own] if previous is None else [previous, own]
    answers = with_reasons([replace(blank, order=one) for one in orders])
    last = answers[-1].order
    assert last is not None
    assert last.reason == reason


def test_an_answer_without_order_gets_no_reason() -> None:
    [blank] = judged(None, [(0,)])
    assert with_reasons([replace(blank, order=None)])[0].order is None
