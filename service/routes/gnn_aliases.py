"""Aliases: words such as `production` that stand for one version of a GNN's name."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from service import examples
from service.context import ContextOf, in_thread, reading_body
from service.http.bodies import json_body
from service.http.faults import reject, shown
from service.http.json_bodies import parse_model
from service.http.openapi import answer, problems, takes
from service.http.responses import reply
from service.resources import GnnResource
from service.routes.gnns import read_gnn
from service.schemas import AliasIn
from service.submission.resource_ids import report_at
from store.catalogue import gnn_labels, gnns
from store.catalogue.gnn_names import ALIAS_PATTERN, is_printable
from store.errors import NotFound
from store.store import Store

router = APIRouter(tags=["GNNs"])

Alias = Annotated[str, Path(pattern=ALIAS_PATTERN)]


@router.put(
    "/v1/gnns/{name}/aliases/{alias}",
    summary="Give an alias to a version",
    description="`name@alias` then stands for that version, until the alias is given to another "
    "one. The version must be ready. Jobs that were asked for by an alias keep the GNN that it "
    "stood for.",
    responses={
        200: answer("The GNN that has the alias now.", GnnResource, examples.GNN),
        **problems(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    },
    openapi_extra=takes(
        AliasIn, {"by version": examples.ALIAS_IN, "by id": {"gnn": examples.GNN_ID}}
    ),
)
async def set_alias(request: Request, context: ContextOf, name: str, alias: Alias) -> Response:
    body = await json_body(request)
    gnn_id = await reading_body(context, len(body), give, name, alias, body)
    return reply(await in_thread(read_gnn, context.store, gnn_id))


@router.delete(
    "/v1/gnns/{name}/aliases/{alias}",
    summary="Remove an alias",
    description="The version that it stood for stays.",
    status_code=204,
    responses={204: answer("Removed."), **problems(HTTPStatus.NOT_FOUND)},
)
def remove_alias(context: ContextOf, name: str, alias: Alias) -> Response:
    if not is_printable(name):
        raise NotFound("gnn", name)
    with context.store.database.transaction() as session:
        gnn_labels.remove_alias(session, name, alias)
    return Response(status_code=204)


def give(store: Store, name: str, alias: str, body: bytes) -> str:
    """Returns the id of the GNN that has the alias now."""
    asked = parse_model(body, AliasIn)
    if (asked.version is None) == (asked.gnn is None):
        reject("/version", "give either `version` or `gnn`")
    at = "/version" if asked.gnn is None else "/gnn"
    with store.database.transaction() as session:
        with report_at(at):
            gnn = gnns.require_ready(session, asked.gnn or f"{name}@{asked.version}")
        if gnn.name != name:
            reject(at, f"{gnn.id} is a version of {shown(gnn.name)}, not of {shown(name)}")
        gnn_labels.set_alias(session, alias, gnn)
        return gnn.id
