"""The table that notebooks show for an explanation."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from d4explain.client.graph_formats.answer_graphs import AnswerGraph
from d4explain.client.results.answer import Answer
from d4explain.contracts.results import Edit, Prediction

_MAX_ROWS = 20
_MAX_EDITS = 6
_CELL = 'style="text-align:left;padding:2px 10px;vertical-align:top"'
_HEADINGS = ("index", "prediction", "becomes", "edits", "verdict")


def answers_html(answers: Sequence[Answer], drawing: str, notes: Sequence[str]) -> str:
    """A drawing, one row per answer, and notes such as warnings."""
    head = "".join(f"<th {_CELL}>{heading}</th>" for heading in _HEADINGS)
    rows = [row for number, answer in enumerate(answers) for row in _rows(number, answer)]
    more = len(rows) - _MAX_ROWS
    body = "".join(rows[:_MAX_ROWS])
    hidden = f"<p>{more:,} more rows</p>" if more > 0 else ""
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return (
        f"{drawing}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"{hidden}{f'<ul>{listed}</ul>' if listed else ''}"
    )


def _rows(number: int, answer: Answer) -> list[str]:
    name = f"node {answer.node}" if answer.node is not None else str(number)
    before = _shown(answer.original.prediction)
    if not answer.counterfactuals:
        return [_row(name, before, "no counterfactual", answer.reason or "", "")]
    return [
        _row(name, before, _shown(found.prediction), _edits(found), verdict)
        for found, verdict in zip(answer.counterfactuals, answer.verdicts, strict=True)
    ]


def _row(*cells: str) -> str:
    return "<tr>" + "".join(f"<td {_CELL}>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _shown(prediction: Prediction) -> str:
    number = prediction.predicted_class
    name = prediction.class_name or f"class {number}"
    return f"{name} ({prediction.probabilities[number]:.2f})"


def _edits(found: AnswerGraph) -> str:
    shown = ", ".join(_edit(edit) for edit in found.edits[:_MAX_EDITS])
    more = len(found.edits) - _MAX_EDITS
    return f"{shown} and {more} more" if more > 0 else shown


def _edit(edit: Edit) -> str:
    ends = [
        str(node) if kind is None else f"{node} ({kind})"
        for node, kind in ((edit.source, edit.source_type), (edit.target, edit.target_type))
    ]
    return f"{edit.action} {'–'.join(ends)}"  # noqa: RUF001
