"""The answers of an explanation: a provisional one at once, and the final one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.global_counterfactuals.results import GlobalResult
from d4explain.contracts.job_states import Stage
from d4explain.contracts.results import ClassResult
from service import examples
from service.context import Context, ContextOf, run_in_thread
from service.drawing.rendering import GRAPHML, SVG, DrawnResult, GraphSelection, drawing_response
from service.explanation_documents import answer_response, read_summary
from service.graph_io.writing.grafana_writer import GrafanaNodeGraph
from service.graph_io.writing.graph_writers import CytoscapeDocument, Format, PygDocument
from service.http.faults import reject
from service.http.openapi import IF_NONE_MATCH, problem_responses, response, response_variants
from service.http.principals import Reader
from service.http.responses import caching_headers, not_modified
from service.http.waiting import Preference
from service.resources import AnswerResource, ExplanationSummary
from service.routes.jobs import wait_for_job
from service.submission.resource_ids import checked_id
from store.errors import Conflict, NotFound

router = APIRouter(tags=["explanations"])


class GraphQuery(BaseModel):
    """Which graph of an answer to return, and how."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Format = Field(
        Format.JSON,
        description="All formats except `json` return one graph. `factual` draws the edges that "
        "the prediction rests on, for explainers that score edges.",
    )
    graph: Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        None,
        description="Index of the posted graph, explained node, class example or global "
        "counterfactual; 0 if not given, or all global counterfactuals in a drawing.",
    )
    alternative: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        None, description="Index of the counterfactual, best first; 0 if not given."
    )

    def selection(self) -> GraphSelection | None:
        """The graph to return; None for the whole document."""
        if self.format is not Format.JSON:
            return GraphSelection(self.format, self.graph, self.alternative or 0)
        formats = "svg, factual, graphml, cytoscape, pyg or grafana"
        for name, value in (("graph", self.graph), ("alternative", self.alternative)):
            if value is not None:
                reject(name, f"is only for format={formats}", "query")
        return None


def document_or_graph(
    description: str, documents: Mapping[str, tuple[type[BaseModel], dict[str, Any]]]
) -> dict[int | str, dict[str, Any]]:
    """Describes the responses of a route that returns a document, or one graph by `format`."""
    return {
        200: response_variants(
            description,
            {
                **documents,
                "cytoscape": (CytoscapeDocument, examples.CYTOSCAPE),
                "pyg": (PygDocument, examples.PYG),
                "grafana": (GrafanaNodeGraph, examples.GRAFANA),
            },
            other_examples={SVG: examples.SVG, GRAPHML: examples.GRAPHML},
        ),
        304: response("Not modified."),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    }


@router.get(
    "/v1/explanations/{explanation_id}/answers/{stage}",
    summary="One answer of an explanation",
    description="The stored document of the `provisional` or the `final` answer. It never changes "
    "once it exists; its SHA-256 is that in `answers` of the explanation. `format` returns one "
    "graph instead, as for the explanation.",
    responses=document_or_graph(
        "The answer, or one of its graphs.",
        {
            "json": (CounterfactualResult, examples.PROVISIONAL_RESULT),
            "class": (ClassResult, examples.CLASS_EXPLANATION["result"]),
            "global": (GlobalResult, examples.GLOBAL_EXPLANATION["result"]),
        },
    ),
    openapi_extra={"parameters": [IF_NONE_MATCH]},
)
async def get_answer(
    request: Request,
    context: ContextOf,
    principal: Reader,
    *,
    explanation_id: str,
    stage: Stage,
    query: Annotated[GraphQuery, Query()],
) -> Response:
    checked_id("explanation", explanation_id)
    summary = await run_in_thread(read_summary, context.store, principal.tenant, explanation_id)
    digest = _digest(summary, stage)
    selection = query.selection()
    if selection is not None:
        drawn = DrawnResult(principal.tenant, digest, summary.gnn)
        return await drawing_response(request, context, drawn, selection)
    headers = caching_headers(f'"{digest}"')
    unchanged = not_modified(request, headers["ETag"], headers)
    return unchanged or await answer_response(context, principal.tenant, digest, headers)


def _digest(summary: ExplanationSummary, stage: Stage) -> str:
    answer = answer_of(summary, stage)
    if answer is None:
        raise NotFound("answer", f"{summary.id}/answers/{stage}")
    if answer.sha256 is None:
        raise Conflict(
            f"the {stage} answer of {summary.id} does not exist: its job {answer.job} is "
            f"{answer.state}"
        )
    return answer.sha256


def answer_of(summary: ExplanationSummary, stage: Stage) -> AnswerResource | None:
    return next((answer for answer in summary.answers if answer.stage is stage), None)


def has_awaited_answer(summary: ExplanationSummary, stage: Stage) -> bool:
    """Whether a client that waits for this answer has nothing more to wait for.

    The final answer also ends the wait for a provisional one, which may have failed.
    """
    if summary.state.is_terminal:
        return True
    return stage is Stage.PROVISIONAL and summary.result_stage is not None


def seconds_until(summary: ExplanationSummary, stage: Stage) -> float | None:
    """Estimated time until this answer; None if unknown, or if it is a matter of seconds."""
    if stage is Stage.PROVISIONAL and answer_of(summary, Stage.PROVISIONAL) is not None:
        return None
    return summary.job.seconds_left if summary.job.trainings else None


async def wait_for_answer(
    request: Request,
    context: Context,
    summary: ExplanationSummary,
    stage: Stage,
    wait: Preference,
    *,
    tenant: str,
) -> Preference:
    """Waits for the answer, the end of the explanation, or until the time is over."""
    started = time.monotonic()
    first = answer_of(summary, Stage.PROVISIONAL)
    if stage is Stage.PROVISIONAL and first is not None and not has_awaited_answer(summary, stage):
        applied = await wait_for_job(request, context, tenant, first.job, wait)
        summary = await run_in_thread(read_summary, context.store, tenant, summary.id)
        left = wait.seconds - round(time.monotonic() - started)
        if applied.seconds <= 0 or left <= 0:
            return applied
        wait = Preference(left, applied.applied)
    if has_awaited_answer(summary, stage):
        return wait
    return await wait_for_job(request, context, tenant, summary.job.id, wait)
