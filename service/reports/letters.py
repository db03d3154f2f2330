"""The letter: an answer in plain words for the person whom the decision concerns."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from d4explain.contracts.counterfactual_results import Counterfactual
from d4explain.contracts.features.gnn_names import GnnNames
from d4explain.contracts.results import Edit, Prediction
from service.reports.reported_answer import ReportedAnswer

_MAX_LISTED = 8  # edits; a longer list does not fit on a page


class Letter(BaseModel):
    """One answer in plain words."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    decision: str = Field(description="What the model said.")
    change: str = Field(description="What would have had to be different, and what it had said.")
    agreement: str = Field(description="Whether other models read the change in the same way.")
    limits: list[str] = Field(description="What was not searched, and how far the answer goes.")


def letter(reported: ReportedAnswer, names: GnnNames) -> Letter:
    answer, counterfactual = reported.answer, reported.counterfactual
    subject = "this graph" if answer.node is None else f"node {answer.node.id} of this graph"
    return Letter(
        decision=f"The model said {spoken(answer.prediction, names)} about {subject}.",
        change=_change(counterfactual, names, answer.reason),
        agreement=_agreement(counterfactual),
        limits=_limits(reported),
    )


def spoken(prediction: Prediction, names: GnnNames) -> str:
    """A class with its probability, such as “mutagenic” (with 93 % certainty)."""
    number = prediction.predicted_class
    name = names.class_name(number) or prediction.class_name or f"class {number}"
    return f"“{name}” (with {percent(prediction.probabilities[number])} certainty)"


def percent(probability: float) -> str:
    """Nothing below certainty is called 100 %."""
    if 0.995 <= probability < 1:
        return "more than 99 %"
    return f"{100 * probability:.0f} %"


def sentence(text: str | None) -> str:
    """A reason of a result as a sentence."""
    if not text:
        return ""
    return capitalised(text) + ("" if text.endswith((".", "!", "?")) else ".")


def capitalised(text: str) -> str:
    """Only the first letter: names of node types, such as C and Cl, stay as they are."""
    return f"{text[0].upper()}{text[1:]}"


def edit_list(edits: Sequence[Edit]) -> str:
    """Edits in words: the connections that are there, and those that are not."""
    removed = [_pair(edit) for edit in edits if edit.action == "remove"]
    added = [_pair(edit) for edit in edits if edit.action == "add"]
    parts = []
    if removed:
        parts.append(f"without the connection{_s(removed)} {_joined(removed)}")
    if added:
        parts.append(
            f"with {'a connection' if len(added) == 1 else 'connections'} {_joined(added)}"
        )
    return ", and ".join(parts)


def _change(counterfactual: Counterfactual | None, names: GnnNames, reason: str | None) -> str:
    if counterfactual is None:
        return f"No change was found that alters this answer. {sentence(reason)}".strip()
    said = spoken(counterfactual.prediction, names)
    return f"{capitalised(edit_list(counterfactual.edits))}, it would have said {said}."


def _agreement(counterfactual: Counterfactual | None) -> str:
    if counterfactual is None:
        return ""
    transfers = counterfactual.transfers
    if transfers is None or counterfactual.verdict == "unjudged":
        return "No other model judged this change."
    shared = f"{transfers.shared} of {transfers.agreeing} other models that learned from the same "
    if counterfactual.verdict == "meaningful":
        return f"{shared}data agree with the change."
    return (
        f"Only {shared}data agree with the change: it says more about this model than about the "
        "matter itself."
    )


def _limits(reported: ReportedAnswer) -> list[str]:
    limits = [
        "Only connections were changed; properties of the nodes stayed as they are.",
        "Other changes may lead to another answer, too. This one was found by a search that does "
        "not try every combination.",
    ]
    limits += _constraints(reported)
    if reported.answer.restricted is not None:
        limits.append("The graph is large, so that only some pairs of nodes were considered.")
    if reported.stage == "provisional":
        limits.append("This answer is provisional: a wider search follows.")
    return limits


def _constraints(reported: ReportedAnswer) -> list[str]:
    """Those of the request, from the receipt."""
    config = reported.receipt.get("config")
    constraints = config.get("constraints") if isinstance(config, dict) else None
    if not isinstance(constraints, dict):
        return []
    limits = []
    if (most := constraints.get("max_edits")) is not None:
        limits.append(f"At most {most} {'change was' if most == 1 else 'changes were'} allowed.")
    elif (ratio := constraints.get("max_ratio")) is not None:
        share = percent(ratio)
        limits.append(f"At most {share} as many changes as there are connections were allowed.")
    if constraints.get("actions") in ("add", "remove"):
        action = "added" if constraints["actions"] == "add" else "removed"
        limits.append(f"Connections could only be {action}.")
    if constraints.get("keep_connected"):
        limits.append("The graph had to stay in one piece.")
    return limits


def _pair(edit: Edit) -> str:
    ends = [
        f"{end} ({type_})" if type_ else str(end)
        for end, type_ in ((edit.source, edit.source_type), (edit.target, edit.target_type))
    ]
    return f"between {ends[0]} and {ends[1]}"


def _joined(parts: Sequence[str]) -> str:
    listed = list(parts[:_MAX_LISTED])
    if len(parts) > _MAX_LISTED:
        listed.append(f"{len(parts) - _MAX_LISTED} more")
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"


def _s(parts: Sequence[str]) -> str:
    return "" if len(parts) == 1 else "s"
