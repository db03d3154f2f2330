"""What a report tells about one graph of a counterfactual explanation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from d4explain.contracts.counterfactual_results import Counterfactual, CounterfactualAnswer
from d4explain.contracts.job_states import ExplanationKind, Stage
from d4explain.contracts.results import Mmd
from service.graph_io.json_parts import JsonPart
from service.http.faults import reject
from store.errors import Conflict

_MMD = TypeAdapter[Mmd | None](Mmd | None)
_TEXTS = TypeAdapter(list[str])
_STAGE = TypeAdapter[Stage](Stage)
_OBJECT = TypeAdapter(dict[str, Any])
_REASON = TypeAdapter[str | None](str | None)


@dataclass(frozen=True)
class ReportedAnswer:
    """One graph of a result, the counterfactual to report (if any) and what holds for the set."""

    graph: int
    graph_count: int
    alternative: int
    answer: CounterfactualAnswer
    counterfactual: Counterfactual | None
    stage: Stage
    mmd: Mmd | None
    unjudged_reason: str | None
    warnings: list[str]
    receipt: dict[str, Any]


def result_kind(result: bytes) -> ExplanationKind:
    """By its members: results of earlier versions lack `kind`."""
    members = JsonPart.whole(result).members()
    if "answers" in members:
        return "counterfactual"
    return "global" if "counterfactuals" in members else "class"


def reported_answer(result: bytes, graph: int, alternative: int) -> ReportedAnswer:
    """Reads one graph of a stored result; the other graphs are not parsed."""
    members = JsonPart.whole(result).members()
    if "answers" not in members:
        raise Conflict(
            "this is an explanation of a class; letters are about counterfactuals of one graph"
        )
    answers = members["answers"].elements()
    check_index("graph", graph, len(answers), "graphs")
    answer = CounterfactualAnswer.model_validate_json(answers[graph].text)
    choices = [*answer.counterfactuals, *answer.minimal]
    if choices or alternative:
        check_index("alternative", alternative, len(choices), "counterfactuals")
    return ReportedAnswer(
        graph=graph,
        graph_count=len(answers),
        alternative=alternative,
        answer=answer,
        counterfactual=choices[alternative] if choices else None,
        stage=_part(_STAGE, members, "stage", Stage.FINAL),
        mmd=_part(_MMD, members, "mmd", None),
        unjudged_reason=_part(_REASON, members, "unjudged_reason", None),
        warnings=_part(_TEXTS, members, "warnings", []),
        receipt=_part(_OBJECT, members, "receipt", {}),
    )


def _part(adapter: TypeAdapter[Any], members: dict[str, JsonPart], name: str, default: Any) -> Any:
    """A member of the result; results of earlier versions lack some."""
    return adapter.validate_json(members[name].text) if name in members else default


def check_index(name: str, index: int, count: int, what: str) -> None:
    if index >= count:
        reject(name, f"is {index}, but the result has {count} {what}, counted from 0", "query")
