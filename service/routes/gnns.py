"""GNNs: registered with a spec and weights, ready once their probe has passed."""

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
from service.context import Context, ContextOf, handle_body, run_in_thread
from service.http.bodies import FormParts, json_body
from service.http.faults import Fault, reject
from service.http.idempotency import (
    Created,
    Submission,
    already_created,
    create_once,
    submission_of,
)
from service.http.json_bodies import parse_model
from service.http.openapi import (
    IDEMPOTENCY_KEY,
    IF_NONE_MATCH,
    PREFER,
    json_request,
    problem_responses,
    response,
)
from service.http.pagination import METADATA_FILTER, ListQuery, converted_page, read_page
from service.http.principals import Reader, Registrar
from service.http.problems import problem
from service.http.responses import accepted_headers, json_response, page_response, with_etag
from service.http.waiting import DEFAULT_WAIT_SECONDS, parse_prefer
from service.resource_builders import gnn_resource
from service.resources import GnnResource, PageOf
from service.routes.jobs import wait_for_job
from service.schemas import GnnPatch, Name
from service.submission.gnn_registration import (
    FORM,
    Places,
    places_of,
    read_registration,
    registration_form,
)
from store.catalogue import gnn_labels, gnns, metadata_changes
from store.catalogue.gnn_names import parse_reference
from store.store import Store
from store.webhooks import endpoints

router = APIRouter(tags=["GNNs"])


class GnnsQuery(ListQuery):
    name: Name | None = Field(None, description="Only the versions of this name.")
    state: GnnState | None = None


@router.post(
    "/v1/gnns",
    summary="Register a GNN",
    description="Post a form with `name`, `spec` (JSON, see the layer vocabulary) and `weights` "
    "(a safetensors file with exactly the spec's tensors), or with `name` and `archive`, a zip "
    "file of spec.json and weights.safetensors. `samples` (samples.json in an archive), "
    "`description`, `tags`, `metadata` and `webhook` are optional. If the deployment allows it, "
    "`predict_url` instead of `weights` registers a black box; its spec has `features` and "
    "`classes` but no layers. Every registration of a name creates its next version. "
    "A probe checks the GNN first; the request waits for it, by default 10 s. A GNN that fails "
    "the probe remains as `rejected` with the report.",
    status_code=201,
    responses={
        201: response("Probed and ready.", GnnResource, examples.GNN),
        202: response("Still being probed.", GnnResource, examples.PROBING_GNN),
        **problem_responses(HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    },
    openapi_extra={"requestBody": FORM, "parameters": [PREFER, IDEMPOTENCY_KEY]},
)
async def register_gnn(request: Request, context: ContextOf, principal: Registrar) -> Response:
    wait = parse_prefer(request.headers.get("prefer"), DEFAULT_WAIT_SECONDS)
    created, places = await _register(request, context, principal.tenant)
    context.wake_dispatcher()
    gnn = await run_in_thread(read_gnn, context.store, principal.tenant, created.id)
    if gnn.state is GnnState.PROBING:
        wait = await wait_for_job(request, context, principal.tenant, gnn.job_id, wait)
        gnn = await run_in_thread(read_gnn, context.store, principal.tenant, created.id)
    return _registration_response(gnn, places, {**wait.headers, **created.headers})


async def _register(request: Request, context: Context, tenant: str) -> tuple[Created, Places]:
    """A separate function, so that the form is freed before the wait for the probe."""
    form = await registration_form(request)
    parts = sorted({**form.texts, **form.files}.items())
    submission = submission_of(
        request, tenant, *(part for name, data in parts for part in (name.encode(), data))
    )
    size = sum(len(data) for _, data in parts)
    return await handle_body(context, size, register, form, submission), places_of(form)


@router.get(
    "/v1/gnns",
    summary="List GNNs, newest first",
    description="`name` filters by name and so lists its versions.",
    responses={
        200: response("A page of GNNs.", PageOf[GnnResource], examples.page(examples.GNN)),
        **problem_responses(),
    },
    openapi_extra={"parameters": [METADATA_FILTER]},
)
def list_gnns(
    request: Request,
    context: ContextOf,
    principal: Reader,
    query: Annotated[GnnsQuery, Query()],
) -> Response:
    with context.store.database.reading() as session:
        rows = read_page(
            lambda: gnns.page(
                session,
                query.cursor,
                query.limit,
                tenant=principal.tenant,
                name=query.name,
                state=query.state,
                filters=query.filters,
            )
        )
        aliases = gnn_labels.aliases_by_gnn(session, [gnn.id for gnn in rows.items])
    page = converted_page(rows, lambda gnn: gnn_resource(gnn, aliases[gnn.id]))
    return page_response(request, page, query.link_parameters())


@router.get(
    "/v1/gnns/{gnn_id}",
    summary="One GNN with its probe report",
    description="By `gnn_…`, `name@3`, `name@production`, or `name` for its newest ready version. "
    "All fields for a GNN's id accept these forms.",
    responses={
        200: response("The GNN.", GnnResource, examples.GNN),
        304: response("Not modified."),
        **problem_responses(HTTPStatus.NOT_FOUND),
    },
    openapi_extra={"parameters": [IF_NONE_MATCH]},
)
def get_gnn(request: Request, context: ContextOf, principal: Reader, gnn_id: str) -> Response:
    return with_etag(request, json_response(read_gnn(context.store, principal.tenant, gnn_id)))


@router.patch(
    "/v1/gnns/{gnn_id}",
    summary="Change a GNN's description, tags or metadata",
    description="Omitted fields stay unchanged. Tags and metadata are merged; null removes a key.",
    responses={
        200: response("The changed GNN.", GnnResource, examples.GNN),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    },
    openapi_extra=json_request(GnnPatch, {"both": examples.GNN_PATCH}),
)
async def change_gnn(
    request: Request, context: ContextOf, principal: Registrar, gnn_id: str
) -> Response:
    body = await json_body(request)
    gnn = await handle_body(context, len(body), change, principal.tenant, gnn_id, body)
    return json_response(gnn)


@router.delete(
    "/v1/gnns/{gnn_id}",
    summary="Delete a GNN and what was trained for it",
    description="By `gnn_…` or `name@3`. Rejected with 409 while jobs use it, denoisers are "
    "trained for it or it has an alias. Explanations remain.",
    status_code=204,
    responses={
        204: response("Deleted."),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
)
def delete_gnn(context: ContextOf, principal: Registrar, gnn_id: str) -> Response:
    with context.store.database.transaction() as session:
        gnn = gnns.find(session, gnn_id, principal.tenant)
        reference = parse_reference(gnn_id)
        if reference is not None and not reference.is_fixed:
            fixed = f"{gnn.id} or {gnn.name}@{gnn.version}"
            reject("/gnn_id", f"may later refer to another GNN; to delete this one, use {fixed}")
        gnns.delete(session, gnn.id, principal.tenant)
    return Response(status_code=204)


def register(store: Store, form: FormParts, submission: Submission) -> Created:
    """Runs all checks that need no torch, then writes weights, GNN and probe job."""
    created = already_created(store, submission)
    if created is not None:
        return created
    posted = read_registration(form, store.settings)
    artifacts = store.artifacts.of(submission.tenant)
    weights_digest = artifacts.put(posted.weights)
    samples_digest = None
    if posted.samples is not None:
        samples_digest = artifacts.put(posted.samples.model_dump_json().encode())

    def create_row(session: Session) -> str:
        gnn, job = gnns.create(
            session,
            name=posted.name,
            tenant=submission.tenant,
            spec=posted.spec,
            weights_digest=weights_digest,
            samples_digest=samples_digest,
            description=posted.description,
            tags=posted.tags,
            metadata=posted.metadata,
        )
        if posted.webhook is not None:
            endpoints.add_all(session, [(posted.webhook, job)])
        return gnn.id

    return create_once(store, submission, create_row)


def change(store: Store, tenant: str, reference: str, body: bytes) -> GnnResource:
    patch = parse_model(body, GnnPatch)
    with store.database.transaction() as session:
        gnn = gnns.find(session, reference, tenant)
        session.refresh(gnn, with_for_update=True)  # lock: tags are read, merged and written
        if "description" in patch.model_fields_set:
            gnn.description = patch.description
        gnn_labels.merge_tags(gnn, patch.tags)
        if patch.metadata:
            gnn = metadata_changes.change(session, gnn, patch.metadata)
        return gnn_resource(gnn, gnn_labels.aliases_of(session, gnn.id))


def read_gnn(store: Store, tenant: str, reference: str) -> GnnResource:
    with store.database.reading() as session:
        gnn = gnns.find(session, reference, tenant)
        return gnn_resource(gnn, gnn_labels.aliases_of(session, gnn.id))


def _registration_response(gnn: GnnResource, places: Places, headers: dict[str, str]) -> Response:
    at = gnn.links.self
    if gnn.state is GnnState.PROBING:
        return json_response(gnn, 202, {**accepted_headers(at), **headers})
    if gnn.state is GnnState.READY:
        return json_response(gnn, 201, {"Location": at, **headers})
    failed = [check for check in gnn.report.checks if not check.passed] if gnn.report else []
    return problem(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "gnn-rejected",
        f"The probe rejected GNN {gnn.id}; see its report.",
        [_fault(check, places) for check in failed],
        {"Location": at, **headers},
        gnn=gnn.model_dump(mode="json"),
    )


def _fault(check: ProbeCheck, places: Places) -> Fault:
    example = check.example
    if example is None:
        return Fault(places.weights, f"{check.name}: {check.detail}")
    at = places.weights if example.sample is None else f"{places.samples}/graphs/{example.sample}"
    shown = f"{example.graph}: expected {example.expected}, got {example.came_out}"
    return Fault(at, f"{check.name}: {check.detail}; for example {shown}")
