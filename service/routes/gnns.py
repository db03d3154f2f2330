"""GNNs: registered as spec and weights, usable once their probe has passed."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from sqlalchemy.orm import Session
from starlette.responses import Response

from d4explain.contracts.job_states import GnnState
from d4explain.contracts.probe_reports import ProbeCheck
from service import examples
from service.context import Context, ContextOf, in_thread, reading_body
from service.http.bodies import FormParts, json_body
from service.http.faults import Fault, reject
from service.http.idempotency import Created, Submission, known, once, submission_of
from service.http.json_bodies import parse_model
from service.http.openapi import IDEMPOTENCY_KEY, IF_NONE_MATCH, PREFER, answer, problems, takes
from service.http.pagination import PageQuery, read_page, shown_page
from service.http.problems import problem
from service.http.responses import accepted_headers, page_reply, reply, tagged
from service.http.waiting import DEFAULT_WAIT_SECONDS, preference
from service.resources import GnnResource, PageOf, gnn_resource
from service.routes.jobs import until_ended
from service.schemas import GnnPatch, Name
from service.submission.gnn_registration import (
    FORM,
    Places,
    places_of,
    read_registration,
    registration_form,
)
from store.catalogue import gnn_labels, gnns
from store.catalogue.gnn_names import parse_reference
from store.store import Store

router = APIRouter(tags=["GNNs"])


class GnnsQuery(PageQuery):
    name: Name | None = Field(None, description="Only the versions of this name.")


@router.post(
    "/v1/gnns",
    summary="Register a GNN",
    description="A form with `name`, `spec` (JSON in the closed layer vocabulary) and `weights` "
    "(a safetensors file with exactly the spec's tensors), or with `name` and `archive`, a zip "
    "file of spec.json and weights.safetensors. `samples` (samples.json in an archive), "
    "`description` and `tags` are optional. Where the deployment allows it, `predict_url` instead "
    "of weights registers a black box, whose spec has `features` and `classes` but no layers. "
    "Every registration of a name is its next version. "
    "The GNN is probed before it can be used; the answer waits for that, by default 10 s. A GNN "
    "that the probe refuses is kept as `rejected` with the report.",
    status_code=201,
    responses={
        201: answer("Probed and ready.", GnnResource, examples.GNN),
        202: answer("Still being probed.", GnnResource, examples.PROBING_GNN),
        **problems(HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    },
    openapi_extra={"requestBody": FORM, "parameters": [PREFER, IDEMPOTENCY_KEY]},
)
async def register_gnn(request: Request, context: ContextOf) -> Response:
    wait = preference(request.headers.get("prefer"), DEFAULT_WAIT_SECONDS)
    made, places = await _register(request, context)
    context.wake_dispatcher()
    gnn = await in_thread(read_gnn, context.store, made.id)
    if gnn.state is GnnState.PROBING:
        wait = await until_ended(request, context, gnn.job_id, wait)
        gnn = await in_thread(read_gnn, context.store, made.id)
    return _registered(gnn, places, {**wait.headers, **made.headers})


async def _register(request: Request, context: Context) -> tuple[Created, Places]:
    """The form is let go of before anybody waits for the probe."""
    form = await registration_form(request)
    parts = sorted({**form.texts, **form.files}.items())
    submission = submission_of(
        request, *(part for name, data in parts for part in (name.encode(), data))
    )
    size = sum(len(data) for _, data in parts)
    return await reading_body(context, size, register, form, submission), places_of(form)


@router.get(
    "/v1/gnns",
    summary="List GNNs, newest first",
    description="With `name`, the versions of one name.",
    responses={
        200: answer("A page of GNNs.", PageOf[GnnResource], examples.page(examples.GNN)),
        **problems(),
    },
)
def list_gnns(
    request: Request, context: ContextOf, query: Annotated[GnnsQuery, Query()]
) -> Response:
    with context.store.database.reading() as session:
        found = read_page(lambda: gnns.page(session, query.cursor, query.limit, name=query.name))
        aliases = gnn_labels.aliases_by_gnn(session, [gnn.id for gnn in found.items])
    page = shown_page(found, lambda gnn: gnn_resource(gnn, aliases[gnn.id]))
    return page_reply(request, page, query.repeated())


@router.get(
    "/v1/gnns/{gnn_id}",
    summary="One GNN with its probe report",
    description="By `gnn_…`, `name@3`, `name@production` or `name`, its newest ready version; so "
    "in all places that take the id of a GNN.",
    responses={
        200: answer("The GNN.", GnnResource, examples.GNN),
        304: answer("The client has this answer already."),
        **problems(HTTPStatus.NOT_FOUND),
    },
    openapi_extra={"parameters": [IF_NONE_MATCH]},
)
def get_gnn(request: Request, context: ContextOf, gnn_id: str) -> Response:
    return tagged(request, reply(read_gnn(context.store, gnn_id)))


@router.patch(
    "/v1/gnns/{gnn_id}",
    summary="Change a GNN's description or tags",
    description="What is left out stays as it is; tags are merged, and null takes one away.",
    responses={
        200: answer("The GNN as it is now.", GnnResource, examples.GNN),
        **problems(HTTPStatus.NOT_FOUND, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    },
    openapi_extra=takes(GnnPatch, {"both": examples.GNN_PATCH}),
)
async def change_gnn(request: Request, context: ContextOf, gnn_id: str) -> Response:
    body = await json_body(request)
    return reply(await reading_body(context, len(body), change, gnn_id, body))


@router.delete(
    "/v1/gnns/{gnn_id}",
    summary="Delete a GNN and its denoisers",
    description="By `gnn_…` or `name@3`. Refused while jobs use it, denoisers are trained for it "
    "or an alias names it; explanations that were made with it stay.",
    status_code=204,
    responses={
        204: answer("Deleted."),
        **problems(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
)
def delete_gnn(context: ContextOf, gnn_id: str) -> Response:
    with context.store.database.transaction() as session:
        gnn = gnns.find(session, gnn_id)
        reference = parse_reference(gnn_id)
        if reference is not None and not reference.is_fixed:
            said = f"{gnn.id} or {gnn.name}@{gnn.version}"
            reject("/gnn_id", f"may name another GNN tomorrow; to delete this one, say {said}")
        gnns.delete(session, gnn.id)
    return Response(status_code=204)


def register(store: Store, form: FormParts, submission: Submission) -> Created:
    """Checks everything that needs no torch, then writes weights, GNN and probe job."""
    made = known(store, submission)
    if made is not None:
        return made
    asked = read_registration(form, store.settings)
    digest = store.artifacts.put(asked.weights)
    samples = asked.samples
    kept = None if samples is None else store.artifacts.put(samples.model_dump_json().encode())

    def make(session: Session) -> str:
        gnn, _ = gnns.create(
            session,
            name=asked.name,
            spec=asked.spec,
            weights_digest=digest,
            samples_digest=kept,
            description=asked.description,
            tags=asked.tags,
        )
        return gnn.id

    return once(store, submission, make)


def change(store: Store, reference: str, body: bytes) -> GnnResource:
    patch = parse_model(body, GnnPatch)
    with store.database.transaction() as session:
        gnn = gnns.find(session, reference)
        session.refresh(gnn, with_for_update=True)  # tags are read, merged and written
        if "description" in patch.model_fields_set:
            gnn.description = patch.description
        gnn_labels.merge_tags(gnn, patch.tags)
        return gnn_resource(gnn, gnn_labels.aliases_of(session, gnn.id))


def read_gnn(store: Store, reference: str) -> GnnResource:
    with store.database.reading() as session:
        gnn = gnns.find(session, reference)
        return gnn_resource(gnn, gnn_labels.aliases_of(session, gnn.id))


def _registered(gnn: GnnResource, places: Places, headers: dict[str, str]) -> Response:
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
        [_fault(check, places) for check in failed],
        {"Location": at, **headers},
        gnn=gnn.model_dump(mode="json"),
    )


def _fault(check: ProbeCheck, places: Places) -> Fault:
    example = check.example
    if example is None:
        return Fault(places.weights, f"{check.name}: {check.detail}")
    at = places.weights if example.sample is None else f"{places.samples}/graphs/{example.sample}"
    said = f"{example.graph}: expected {example.expected}, came out {example.came_out}"
    return Fault(at, f"{check.name}: {check.detail}; for example {said}")
