"""Writes reports, letters and embedded views as HTML pages without scripts or foreign files.

A class has no letter: its patterns, or graphs near to it, concern nobody in particular.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from d4explain.contracts.features.gnn_names import GnnNames
from d4explain.contracts.global_counterfactuals.results import GlobalResult
from d4explain.contracts.global_counterfactuals.words import rule_words, type_names
from d4explain.contracts.results import ClassResult
from service.drawing.global_svg import global_svg
from service.drawing.svg import to_svg
from service.graph_io.chosen_graph import chosen_graph
from service.reports.letters import Letter, edit_list, letter, sentence, spoken
from service.reports.reported_answer import (
    ReportedAnswer,
    check_index,
    reported_answer,
    result_kind,
)


class PageKind(StrEnum):
    """Each is a template."""

    REPORT = "report"  # everything, for a file
    LETTER = "letter"  # one page for the person concerned
    EMBED = "embed"  # the drawing and its verdict, for a frame in another page


@dataclass(frozen=True)
class Heading:
    """What identifies the answer."""

    explanation: str
    gnn: str
    dataset: str
    created_at: str


TEMPLATES = Environment(
    loader=PackageLoader("service.reports"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
TEMPLATES.globals["sentence"] = sentence


def page(
    kind: PageKind,
    result: bytes,
    heading: Heading,
    names: GnnNames,
    *,
    graph: int = 0,
    alternative: int = 0,
) -> str:
    """One page about one answer; its SVG comes from the service, so it is not escaped."""
    explained = result_kind(result)
    if kind is not PageKind.LETTER and explained == "class":
        return _class_page(kind, result, heading, names, pattern=graph)
    if kind is not PageKind.LETTER and explained == "global":
        return _global_page(kind, result, heading, names)
    reported = reported_answer(result, graph, alternative)
    drawing = to_svg(chosen_graph(result, graph, _drawn_alternative(reported)), names)
    return TEMPLATES.get_template(f"{kind}.html").render(
        heading=heading,
        reported=reported,
        letter=letter(reported, names),
        drawing=Markup(drawing),
        names=names,
        spoken=spoken,
        edit_list=edit_list,
        receipt=json.dumps(reported.receipt, indent=2, ensure_ascii=False),
    )


def _class_page(
    kind: PageKind, result: bytes, heading: Heading, names: GnnNames, *, pattern: int
) -> str:
    """A report has all patterns; an embedded view has one."""
    reported = ClassResult.model_validate_json(result)
    positions = range(len(reported.examples))
    if kind is PageKind.EMBED:
        check_index("graph", pattern, len(reported.examples) or 1, "patterns")
        positions = positions[pattern : pattern + 1]
    return TEMPLATES.get_template(f"class_{kind}.html").render(
        heading=heading,
        reported=reported,
        class_name=names.class_name(reported.target_class) or f"class {reported.target_class}",
        patterns=[
            (position, reported.examples[position], Markup(_pattern_svg(result, position, names)))
            for position in positions
        ],
        receipt=reported.receipt.model_dump_json(indent=2),
    )


def _global_page(kind: PageKind, result: bytes, heading: Heading, names: GnnNames) -> str:
    """Both have all counterfactuals in one drawing; a report has the figures as well."""
    reported = GlobalResult.model_validate_json(result)
    drawing = global_svg(result, names, lambda: None) if reported.counterfactuals else ""
    return TEMPLATES.get_template(f"global_{kind}.html").render(
        heading=heading,
        reported=reported,
        source=names.class_name(reported.source_class) or f"class {reported.source_class}",
        rules=[(rule_words(one, type_names(reported)), one) for one in reported.rules],
        drawing=Markup(drawing),
        receipt=reported.receipt.model_dump_json(indent=2),
    )


def _pattern_svg(result: bytes, position: int, names: GnnNames) -> str:
    return to_svg(chosen_graph(result, position, 0), names)


def error_page(title: str, detail: str) -> str:
    return TEMPLATES.get_template("embed_error.html").render(title=title, detail=detail)


def letter_document(result: bytes, graph: int, alternative: int, names: GnnNames) -> Letter:
    return letter(reported_answer(result, graph, alternative), names)


def _drawn_alternative(reported: ReportedAnswer) -> int:
    """`chosen_graph` counts minimal answers only if there is no believable one."""
    shown = reported.answer.counterfactuals or reported.answer.minimal
    return min(reported.alternative, max(len(shown) - 1, 0))
