"""Writes reports, letters and embedded views as HTML pages without scripts or foreign files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from d4explain.contracts.features.gnn_names import GnnNames
from service.drawing.svg import to_svg
from service.graph_io.chosen_graph import chosen_graph
from service.reports.letters import Letter, edit_list, letter, spoken
from service.reports.reported_answer import ReportedAnswer, reported_answer


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


_TEMPLATES = Environment(
    loader=PackageLoader("service.reports"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def page(
    kind: PageKind,
    result: bytes,
    heading: Heading,
    names: GnnNames,
    *,
    graph: int = 0,
    alternative: int = 0,
) -> str:
    """One page about one counterfactual; its SVG comes from the service, so it is not escaped."""
    reported = reported_answer(result, graph, alternative)
    drawing = to_svg(chosen_graph(result, graph, _drawn_alternative(reported)), names)
    return _TEMPLATES.get_template(f"{kind}.html").render(
        heading=heading,
        reported=reported,
        letter=letter(reported, names),
        drawing=Markup(drawing),
        names=names,
        spoken=spoken,
        edit_list=edit_list,
        receipt=json.dumps(reported.receipt, indent=2, ensure_ascii=False),
    )


def letter_document(result: bytes, graph: int, alternative: int, names: GnnNames) -> Letter:
    return letter(reported_answer(result, graph, alternative), names)


def _drawn_alternative(reported: ReportedAnswer) -> int:
    """`chosen_graph` counts minimal answers only if there is no believable one."""
    shown = reported.answer.counterfactuals or reported.answer.minimal
    return min(reported.alternative, max(len(shown) - 1, 0))
