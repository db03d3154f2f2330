"""GNNs: registered as spec and weights, usable once their probe has passed."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import TypeAdapter, ValidationError
from sqlalchemy.orm import Session
from starlette.responses import Response

from service import examples
from service.bodies import FormParts, form_body
from service.context import ContextOf, in_thread, reading_body
from service.errors import problem
from service.faults import Fault, InvalidRequestError, faults_of, refuse
from service.idempotency import Made, Submission, known, once, submission_of
from service.jobs import until_ended
from service.json_bodies import MalformedJsonError, parse_json
from service.openapi import IDEMPOTENCY_KEY, IF_NONE_MATCH, PREFER, answer, problems, schema_of
from service.pagination import PageQuery, page_from
from service.references import checked_id
from service.replies import accepted_headers, page_reply, reply, tagged
from service.resources import GnnResource, PageOf, gnn_resource
from service.schemas import Name
from service.waiting import DEFAULT_WAIT_SECONDS, preference
from store import gnns
from store.gnn_spec import GnnSpecDocument, parse_spec
from store.job_states import GnnState
from store.opened import Store
from store.weights import WeightLimits, check_weights

router = APIRouter(tags=["GNNs"])

_NAME: TypeAdapter[str] = TypeAdapter(Name)
_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["name", "spec", "weights"],
                    "additionalProperties": False,
                    "properties": {
                        "name": {"type": "string", "minLength": 1, "maxLength": 200},
                        "spec": schema_of(GnnSpecDocument),
                        "weights": {"type": "string", "format": "binary"},
                    },
                },
                "encoding": {
                    "spec": {"contentType": "application/json"},
                    "weights": {"contentType": "application/octet-stream"},
                },
                "example": examples.GNN_IN,
            }
        },
    },
    "parameters": [PREFER, IDEMPOTENCY_KEY],
}


@router.post(
    "/v1/gnns",
    summary="Register a GNN",
    description="A form with `name`, `spec` (JSON in the closed layer vocabulary) and `weights` "
    "(a safetensors file with exactly the spec's tensors). The GNN is probed before it can be "
    "used; the answer waits for that, by default 10 s. A GNN that the probe refuses is kept as "
    "`rejected` with the report.",
    status_code=201,
    responses={
        201: answer("Probed and ready.", GnnResource, examples.GNN),
        202: answer("Still being probed.", GnnResource, examples.PROBING_GNN),
        **problems(HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    },
    openapi_extra=_FORM,
)
async def register_gnn(request: Request, context: ContextOf) -> Response:
    wait = preference(request.headers.get("prefer"), DEFAULT_WAIT_SECONDS)
    form = await form_body(request, texts={"name", "spec"}, files={"weights"})
    submission = submission_of(
        request, form.texts["name"], form.texts["spec"], form.files["weights"]
    )
    made = await reading_body(context, register, context.store, form, submission)
    context.nudge()
    gnn = await in_thread(read_gnn, context.store, made.id)
    if gnn.state is GnnState.PROBING:
        await until_ended(context, gnn.job, wait.seconds)
        gnn = await in_thread(read_gnn, context.store, made.id)
    return _registered(gnn, {**wait.headers, **made.headers})


@router.get(
    "/v1/gnns",
    summary="List GNNs, newest first",
    responses={
        200: answer("A page of GNNs.", PageOf[GnnResource], examples.page(examples.GNN)),
        **problems(),
    },
)
def list_gnns(
    request: Request, context: ContextOf, query: Annotated[PageQuery, Query()]
) -> Response:
    with context.store.database.reading() as session:
        page = page_from(lambda: gnns.page(session, query.cursor, query.limit), gnn_resource)
    return page_reply(request, page, query.repeated())


@router.get(
    "/v1/gnns/{gnn_id}",
    summary="One GNN with its probe report",
    responses={
        200: answer("The GNN.", GnnResource, examples.GNN),
        304: answer("The client has this answer already."),
        **problems(HTTPStatus.NOT_FOUND),
    },
    openapi_extra={"parameters": [IF_NONE_MATCH]},
)
def get_gnn(request: Request, context: ContextOf, gnn_id: str) -> Response:
    return tagged(request, reply(read_gnn(context.store, checked_id("gnn", gnn_id))))


@router.delete(
    "/v1/gnns/{gnn_id}",
    summary="Delete a GNN and its denoisers",
    description="Refused while jobs use it; explanations that were made with it stay.",
    status_code=204,
    responses={
        204: answer("Deleted."),
        **problems(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
)
def delete_gnn(context: ContextOf, gnn_id: str) -> Response:
    with context.store.database.transaction() as session:
        gnns.delete(session, checked_id("gnn", gnn_id))
    return Response(status_code=204)


def register(store: Store, form: FormParts, submission: Submission) -> Made:
    """Checks everything that needs no torch, then writes weights, GNN and probe job."""
    made = known(store, submission)
    if made is not None:
        return made
    name = _name(form.texts["name"])
    spec = parse_spec(
        _spec_document(form.texts["spec"]),
        max_features=store.settings.max_features,
        pointer="/spec",
    )
    weights = form.files["weights"]
    check_weights(weights, spec, WeightLimits(store.settings.max_weights_bytes), "/weights")
    digest = store.artifacts.put(weights)

    def make(session: Session) -> str:
        gnn, _ = gnns.create(session, name=name, spec=spec, weights_digest=digest)
        return gnn.id

    return once(store, submission, make)


def read_gnn(store: Store, gnn_id: str) -> GnnResource:
    with store.database.reading() as session:
        return gnn_resource(gnns.get(session, gnn_id))


def _registered(gnn: GnnResource, headers: dict[str, str]) -> Response:
    at = gnn.links.self
    if gnn.state is GnnState.PROBING:
        return reply(gnn, 202, {**accepted_headers(at), **headers})
    if gnn.state is GnnState.READY:
        return reply(gnn, 201, {"Location": at, **headers})
    failed = [check for check in gnn.report.checks if not check.passed] if gnn.report else []
    return problem(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "gnn-rejected",
        f"The probe has rejected GNN {gnn.id}; its report says why.",
        [Fault("/weights", f"{check.name}: {check.detail}") for check in failed],
        {"Location": at, **headers},
        gnn=gnn.model_dump(mode="json"),
    )


def _name(text: bytes) -> str:
    try:
        return _NAME.validate_python(text.decode("utf-8"))
    except UnicodeDecodeError:
        refuse("/name", "is not UTF-8")
    except ValidationError as error:
        raise InvalidRequestError(faults_of(error, None, "/name")) from error


def _spec_document(text: bytes) -> object:
    try:
        return parse_json(text)
    except MalformedJsonError as error:
        refuse("/spec", f"is not JSON: {error}")
    except InvalidRequestError as error:
        faults = [Fault(f"/spec{fault.at}", fault.detail) for fault in error.faults]
        raise InvalidRequestError(faults) from error
