"""One graph of a result as a drawing or in an exchange format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from fastapi import Request
from starlette.responses import Response

from service.context import Context, in_thread
from service.drawing.drawing_queue import Drawing, drawn_unless_disconnected
from service.drawing.svg import to_svg
from service.explanation_documents import ExplanationDocument
from service.graph_io.chosen_graph import chosen_graph
from service.graph_io.graph_writers import Format, require_answer, to_cytoscape, to_graphml, to_pyg
from service.http.faults import reject
from service.http.responses import caching_headers, entity_tag, not_modified
from store.catalogue import gnns
from store.errors import Conflict, NotFound
from store.store import Store

SVG = "image/svg+xml"
GRAPHML = "application/graphml+xml"

# Opened by itself, an SVG is a page: nothing in it may run or load anything.
_GUARD = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}


class WantedGraph(NamedTuple):
    format: Format
    graph: int
    alternative: int


class DrawingKey(NamedTuple):
    """All that a drawing depends on."""

    result_digest: str
    wanted: WantedGraph
    class_names: tuple[str, ...] | None


async def drawing_reply(
    request: Request,
    context: Context,
    document: ExplanationDocument,
    wanted: WantedGraph,
    headers: Mapping[str, str],
) -> Response:
    if document.result_digest is None:
        summary = document.summary
        raise Conflict(f"explanation {summary.id} is {summary.state}; it has no graph to show")
    names = await in_thread(_class_names, context.store, document.summary.gnn)
    key = DrawingKey(document.result_digest, wanted, names)
    draw = partial(render, context.store, key)
    drawing = await drawn_unless_disconnected(request, context.drawings, key, draw)
    tag = entity_tag(drawing.digest.encode())
    sent = {**headers, **caching_headers(tag), **(_GUARD if drawing.media_type == SVG else {})}
    known = not_modified(request, tag, sent)
    return known or Response(drawing.content, headers=sent, media_type=drawing.media_type)


def render(store: Store, key: DrawingKey, check: Callable[[], None]) -> Drawing:
    """Reads one graph of the result and writes it; `check` may raise to end it."""
    check()
    form, graph, alternative = key.wanted
    chosen = chosen_graph(store.artifacts.get(key.result_digest), graph, alternative)
    check()
    if form is Format.SVG:
        most, nodes = store.settings.exact_nodes, len(chosen.graph.nodes)
        if nodes > most:
            said = f"is svg, which draws at most {most:,} nodes; the graph has {nodes:,}"
            reject("format", said, "query")
        return Drawing(to_svg(chosen, key.class_names, check).encode(), SVG)
    require_answer(chosen)
    if form is Format.GRAPHML:
        return Drawing(to_graphml(chosen, check).encode(), GRAPHML)
    document = to_cytoscape(chosen, check) if form is Format.CYTOSCAPE else to_pyg(chosen)
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Drawing(text.encode(), "application/json")


def _class_names(store: Store, gnn_id: str) -> tuple[str, ...] | None:
    with store.database.reading() as session:
        try:
            names = gnns.get(session, gnn_id).spec.get("class_names")
        except NotFound:  # deleted since
            return None
    return None if names is None else tuple(names)
