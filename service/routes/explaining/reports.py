"""Pages about one answer: a report, a letter, and a view for a frame in another page."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import HTMLResponse, Response

from service import examples
from service.context import Context, ContextOf, run_in_thread
from service.drawing.drawing_queue import Drawing, get_unless_disconnected
from service.drawing.rendering import names_of
from service.explanation_documents import read_document
from service.http.faults import reject
from service.http.openapi import problem_responses, response
from service.http.principals import Principal, Reader
from service.http.problems import problem
from service.http.responses import json_response
from service.reports.embed_errors import EMBED, POLICY
from service.reports.letters import Letter
from service.reports.oembed import oembed_address
from service.reports.pages import Heading, PageKind, letter_document, page
from service.submission.resource_ids import checked_id

router = APIRouter(tags=["explanations"])

_HTML = "text/html"
_PAGES = "/explanations/"  # of the dashboard
_EMBED_TITLE = "Explanation of a prediction"
_EMBED_WIDTH, _EMBED_HEIGHT = 820, 760
_FRAMED_NOWHERE = {"Content-Security-Policy": f"{POLICY}frame-ancestors 'none'"}
# A page that may be framed by anybody: it shows one explanation and nothing to click.
_FRAMED_ANYWHERE = {"Content-Security-Policy": f"{POLICY}frame-ancestors *"}


class AnswerQuery(BaseModel):
    """Which counterfactual the page is about."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    graph: Annotated[int, Field(ge=0, le=10_000, description="Index of the posted graph.")] = 0
    alternative: Annotated[
        int, Field(ge=0, le=1000, description="Index of the counterfactual, best first.")
    ] = 0


class OembedQuery(BaseModel):
    """The parameters of an oEmbed request."""

    model_config = ConfigDict(extra="ignore", frozen=True)  # consumers add their own

    url: Annotated[str, Field(max_length=2000, description="Address of an embedded view.")]
    format: Annotated[str, Field(max_length=20, description="Only `json`.")] = "json"
    maxwidth: Annotated[int, Field(ge=1, description="Most pixels.")] = _EMBED_WIDTH
    maxheight: Annotated[int, Field(ge=1, description="Most pixels.")] = _EMBED_HEIGHT


class Oembed(BaseModel):
    """An oEmbed response of the type `rich`."""

    version: str = Field("1.0", description="Version of oEmbed.")
    type: str = Field("rich", description="Always `rich`.")
    provider_name: str = Field("d4explain", description="Name of the service.")
    title: str = Field(description="Title of the view.")
    html: str = Field(description="An iframe with the view.")
    width: int = Field(description="Width of the frame in pixels.")
    height: int = Field(description="Height of the frame in pixels.")


@router.get(
    "/v1/explanations/{explanation_id}/report",
    summary="A report of one counterfactual, or of a class",
    description="One HTML file without scripts and foreign files: the answer in plain words, the "
    "drawing, probabilities, edits, evidence, limits, the receipt and a place to sign. Of a class, "
    "all patterns with their evidence.",
    response_class=HTMLResponse,
    responses={
        200: response("The report.", example=examples.REPORT, media_type=_HTML),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
)
async def get_report(
    request: Request,
    context: ContextOf,
    principal: Reader,
    *,
    explanation_id: str,
    query: Annotated[AnswerQuery, Query()],
) -> Response:
    content = await _page(
        request, context, principal, PageKind.REPORT, explanation_id=explanation_id, query=query
    )
    return HTMLResponse(content, headers=_FRAMED_NOWHERE)


@router.get(
    "/v1/explanations/{explanation_id}/letter",
    summary="A letter about one counterfactual",
    description="One page in plain words for the person whom the decision concerns: what the model "
    "said, what would have changed it, and what this does not say. `Accept: application/json` "
    "returns the same sentences as JSON.",
    response_class=HTMLResponse,
    responses={
        200: response(
            "The letter.", Letter, examples.LETTER, other_examples={_HTML: examples.REPORT}
        ),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
)
async def get_letter(
    request: Request,
    context: ContextOf,
    principal: Reader,
    *,
    explanation_id: str,
    query: Annotated[AnswerQuery, Query()],
) -> Response:
    if "application/json" in request.headers.get("accept", ""):
        digest, gnn, _ = await _read(context, principal, explanation_id)
        names = await run_in_thread(names_of, context.store, principal.tenant, gnn)
        result = await run_in_thread(context.store.artifacts.of(principal.tenant).get, digest)
        found = await run_in_thread(letter_document, result, query.graph, query.alternative, names)
        return json_response(found)
    content = await _page(
        request, context, principal, PageKind.LETTER, explanation_id=explanation_id, query=query
    )
    return HTMLResponse(content, headers=_FRAMED_NOWHERE)


@router.get(EMBED + "{explanation_id}", include_in_schema=False)
async def embed(
    request: Request,
    context: ContextOf,
    principal: Reader,
    *,
    explanation_id: str,
    query: Annotated[AnswerQuery, Query()],
) -> Response:
    """The view for an iframe; a link's token opens it without a key."""
    content = await _page(
        request, context, principal, PageKind.EMBED, explanation_id=explanation_id, query=query
    )
    described = content.replace(b"</head>", f"{_discovery_link(request)}</head>".encode(), 1)
    return HTMLResponse(described, headers=_FRAMED_ANYWHERE)


@router.get("/oembed", include_in_schema=False)
async def oembed(request: Request, query: Annotated[OembedQuery, Query()]) -> Response:
    """Describes an embedded view; the view itself needs the token of its address."""
    if query.format != "json":  # the status that oEmbed prescribes
        return problem(HTTPStatus.NOT_IMPLEMENTED, "unsupported-format", "Only json is supported.")
    address = urlsplit(query.url)
    host = request.headers.get("host", "")
    if address.netloc.lower() != host.lower() or not address.path.startswith((EMBED, _PAGES)):
        reject("url", f"should be an address of {EMBED}… or {_PAGES}… on this host", "query")
    path = EMBED + address.path.removeprefix(EMBED).removeprefix(_PAGES)
    view = f"{request.url.scheme}://{host}{path}" + (f"?{address.query}" if address.query else "")
    width, height = min(_EMBED_WIDTH, query.maxwidth), min(_EMBED_HEIGHT, query.maxheight)
    frame = (
        f'<iframe src="{escape(view)}" width="{width}" height="{height}" '
        f'sandbox title="{_EMBED_TITLE}"></iframe>'
    )
    return json_response(Oembed(title=_EMBED_TITLE, html=frame, width=width, height=height))


def _discovery_link(request: Request) -> str:
    """Where a page that finds this view learns how to show it."""
    href = escape(oembed_address(request))
    kind = "application/json+oembed"
    return f'<link rel="alternate" type="{kind}" href="{href}" title="{_EMBED_TITLE}">'


async def _page(
    request: Request,
    context: Context,
    principal: Principal,
    kind: PageKind,
    *,
    explanation_id: str,
    query: AnswerQuery,
) -> bytes:
    digest, gnn, heading = await _read(context, principal, explanation_id)
    names = await run_in_thread(names_of, context.store, principal.tenant, gnn)
    key = (principal.tenant, kind, digest, query, heading, names)

    def draw(check: Callable[[], None]) -> Drawing:
        check()
        result = context.store.artifacts.of(principal.tenant).get(digest)
        text = page(kind, result, heading, names, graph=query.graph, alternative=query.alternative)
        return Drawing(text.encode(), _HTML)

    return (await get_unless_disconnected(request, context.drawings, key, draw)).content


async def _read(
    context: Context, principal: Principal, explanation_id: str
) -> tuple[str, str, Heading]:
    """The digest of the newest answer, the id of the GNN, and the heading of a page."""
    checked_id("explanation", explanation_id)
    document = await run_in_thread(read_document, context.store, principal.tenant, explanation_id)
    summary = document.summary
    heading = Heading(summary.id, summary.gnn, summary.dataset, summary.created_at)
    return document.require_result(), summary.gnn, heading
