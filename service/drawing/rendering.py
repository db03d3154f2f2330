"""Answers `?format=`: one graph of a result, drawn or in a format of `graph_writers`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from fastapi import Request
from starlette.responses import Response

from d4explain.contracts.features.gnn_names import GnnNames, gnn_names
from service.context import Context, run_in_thread
from service.drawing.drawing_queue import Drawing, get_unless_disconnected
from service.drawing.global_svg import global_svg
from service.drawing.svg import to_svg
from service.graph_io.chosen_graph import (
    chosen_graph,
    factual_graph,
    global_counterfactual_count,
)
from service.graph_io.writing.grafana_writer import to_grafana
from service.graph_io.writing.graph_writers import (
    Format,
    require_answer,
    to_cytoscape,
    to_graphml,
    to_pyg,
)
from service.http.faults import reject
from service.http.responses import caching_headers, entity_tag, not_modified
from store.catalogue import gnns
from store.errors import NotFound
from store.store import Store

SVG = "image/svg+xml"
GRAPHML = "application/graphml+xml"

# A browser opens an SVG as a page: it must not run scripts or load anything.
_SVG_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}


class GraphSelection(NamedTuple):
    """The graph that a request asks for, and its format."""

    format: Format
    graph: int | None  # None: the first, or all global counterfactuals in one drawing
    alternative: int


class DrawnResult(NamedTuple):
    """A stored result of a tenant and the id of its GNN."""

    tenant: str
    result_digest: str
    gnn: str


class DrawingKey(NamedTuple):
    """Everything that a drawing depends on, and whose it is."""

    tenant: str
    result_digest: str
    selection: GraphSelection
    names: GnnNames


async def drawing_response(
    request: Request,
    context: Context,
    drawn: DrawnResult,
    selection: GraphSelection,
    headers: Mapping[str, str] | None = None,
) -> Response:
    names = await run_in_thread(names_of, context.store, drawn.tenant, drawn.gnn)
    key = DrawingKey(drawn.tenant, drawn.result_digest, selection, names)
    draw = partial(render, context.store, key)
    drawing = await get_unless_disconnected(request, context.drawings, key, draw)
    tag = entity_tag(drawing.digest.encode())
    guard = _SVG_HEADERS if drawing.media_type == SVG else {}
    all_headers = {**(headers or {}), **caching_headers(tag), **guard}
    unchanged = not_modified(request, tag, all_headers)
    if unchanged is not None:
        return unchanged
    return Response(drawing.content, headers=all_headers, media_type=drawing.media_type)


def render(store: Store, key: DrawingKey, check: Callable[[], None]) -> Drawing:
    """Reads one graph of the result and writes it; `check` may raise to end the work."""
    check()
    format_, number, alternative = key.selection
    graph = number or 0
    result = store.artifacts.of(key.tenant).get(key.result_digest)
    if format_ is Format.SVG and number is None and global_counterfactual_count(result):
        return Drawing(global_svg(result, key.names, check).encode(), SVG)
    is_factual = format_ is Format.FACTUAL
    chosen = (
        factual_graph(result, graph) if is_factual else chosen_graph(result, graph, alternative)
    )
    check()
    if format_ is Format.SVG or is_factual:
        max_nodes, nodes = store.settings.exact_nodes, len(chosen.graph.nodes)
        if nodes > max_nodes:
            detail = (
                f"is {format_}, which draws at most {max_nodes:,} nodes; the graph has {nodes:,}"
            )
            reject("format", detail, "query")
        return Drawing(to_svg(chosen, key.names, check).encode(), SVG)
    require_answer(chosen)
    if format_ is Format.GRAPHML:
        return Drawing(to_graphml(chosen, check).encode(), GRAPHML)
    document: Mapping[str, object]
    if format_ is Format.CYTOSCAPE:
        document = to_cytoscape(chosen, check)
    elif format_ is Format.PYG:
        document = to_pyg(chosen)
    else:
        document = to_grafana(chosen, key.names).model_dump()
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Drawing(text.encode(), "application/json")


def names_of(store: Store, tenant: str, gnn_id: str) -> GnnNames:
    with store.database.reading() as session:
        try:
            return gnn_names(gnns.get(session, gnn_id, tenant).spec)
        except NotFound:  # deleted since the explanation was made
            return GnnNames()
