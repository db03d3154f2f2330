"""Aliases: names such as `production` for one version of a GNN."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from d4explain.resource_names import is_printable
from service import examples
from service.context import ContextOf, handle_body, run_in_thread
from service.http.bodies import json_body
from service.http.faults import reject, shown
from service.http.json_bodies import parse_model
from service.http.openapi import json_request, problem_responses, response
from service.http.principals import Registrar
from service.http.responses import json_response
from service.resources import GnnResource
from service.routes.gnns import read_gnn
from service.schemas import AliasIn
from service.submission.resource_ids import report_at
from store.catalogue import gnn_labels, gnns
from store.catalogue.gnn_names import ALIAS_PATTERN
from store.errors import NotFound
from store.store import Store

router = APIRouter(tags=["GNNs"])

Alias = Annotated[str, Path(pattern=ALIAS_PATTERN)]


@router.put(
    "/v1/gnns/{name}/aliases/{alias}",
    summary="Give an alias to a version",
    description="`name@alias` then refers to this version, until another version gets the alias. "
    "The version must be ready. Existing jobs keep their version.",
    responses={
        200: response("The GNN with the alias.", GnnResource, examples.GNN),
        **problem_responses(
            HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE
        ),
    },
    openapi_extra=json_request(
        AliasIn, {"by version": examples.ALIAS_IN, "by id": {"gnn": examples.GNN_ID}}
    ),
)
async def set_alias(
    request: Request, context: ContextOf, principal: Registrar, name: str, alias: Alias
) -> Response:
    body = await json_body(request)
    gnn_id = await handle_body(context, len(body), assign, principal.tenant, name, alias, body)
    return json_response(await run_in_thread(read_gnn, context.store, principal.tenant, gnn_id))


@router.delete(
    "/v1/gnns/{name}/aliases/{alias}",
    summary="Remove an alias",
    description="The version remains.",
    status_code=204,
    responses={204: response("Removed."), **problem_responses(HTTPStatus.NOT_FOUND)},
)
def remove_alias(context: ContextOf, principal: Registrar, name: str, alias: Alias) -> Response:
    if not is_printable(name):
        raise NotFound("gnn", name)
    with context.store.database.transaction() as session:
        gnn_labels.remove_alias(session, name, alias, principal.tenant)
    return Response(status_code=204)


def assign(store: Store, tenant: str, name: str, alias: str, body: bytes) -> str:
    """Gives the alias to the posted version and returns its GNN id."""
    posted = parse_model(body, AliasIn)
    if (posted.version is None) == (posted.gnn is None):
        reject("/version", "give either `version` or `gnn`")
    at = "/version" if posted.gnn is None else "/gnn"
    with store.database.transaction() as session:
        with report_at(at):
            reference = posted.gnn or f"{name}@{posted.version}"
            gnn = gnns.require_ready(session, reference, tenant)
        if gnn.name != name:
            reject(at, f"{gnn.id} is a version of {shown(gnn.name)}, not of {shown(name)}")
        gnn_labels.set_alias(session, alias, gnn)
        return gnn.id
