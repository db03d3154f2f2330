"""Changes the metadata of resources that cannot change otherwise."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from service import examples
from service.context import ContextOf, run_in_thread
from service.explanation_documents import read_summary
from service.http.bodies import json_body
from service.http.json_bodies import parse_model
from service.http.openapi import json_request, problem_responses, response
from service.http.principals import Explainer, Registrar
from service.http.responses import json_response
from service.resource_builders import dataset_resource, denoiser_resource
from service.resources import DatasetResource, DenoiserResource, ExplanationSummary
from service.schemas import MetadataPatch
from service.submission.resource_ids import checked_id
from store import jobs
from store.catalogue import datasets, denoisers, explanations, metadata_changes
from store.store import Store

router = APIRouter()

_MERGED = "Keys are merged; null removes a key."
MERGED_WITH_JOBS = f"{_MERGED} The jobs of the resource show the same metadata."
METADATA_PATCH: dict[str, Any] = json_request(MetadataPatch, {"two keys": examples.METADATA_PATCH})
PATCH_PROBLEMS = problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)


@router.patch(
    "/v1/explanations/{explanation_id}",
    tags=["explanations"],
    summary="Change the metadata of an explanation",
    description=MERGED_WITH_JOBS,
    responses={
        200: response(
            "The changed explanation, without its result.",
            ExplanationSummary,
            examples.LISTED_EXPLANATION,
        ),
        **PATCH_PROBLEMS,
    },
    openapi_extra=METADATA_PATCH,
)
async def change_explanation(
    request: Request, context: ContextOf, principal: Explainer, explanation_id: str
) -> Response:
    id_, body = checked_id("explanation", explanation_id), await json_body(request)
    return json_response(
        await run_in_thread(_change_explanation, context.store, principal.tenant, id_, body)
    )


@router.patch(
    "/v1/datasets/{dataset_id}",
    tags=["reference sets"],
    summary="Change the metadata of a reference set",
    description=f"By `set_…`, `name@2`, or `name` for its newest version. {_MERGED}",
    responses={
        200: response("The changed reference set.", DatasetResource, examples.DATASET),
        **PATCH_PROBLEMS,
    },
    openapi_extra=METADATA_PATCH,
)
async def change_dataset(
    request: Request, context: ContextOf, principal: Registrar, dataset_id: str
) -> Response:
    body = await json_body(request)
    return json_response(
        await run_in_thread(_change_dataset, context.store, principal.tenant, dataset_id, body)
    )


@router.patch(
    "/v1/denoisers/{denoiser_id}",
    tags=["denoisers"],
    summary="Change the metadata of a denoiser",
    description=MERGED_WITH_JOBS,
    responses={
        200: response("The changed denoiser.", DenoiserResource, examples.DENOISER),
        **PATCH_PROBLEMS,
    },
    openapi_extra=METADATA_PATCH,
)
async def change_denoiser(
    request: Request, context: ContextOf, principal: Registrar, denoiser_id: str
) -> Response:
    id_, body = checked_id("denoiser", denoiser_id), await json_body(request)
    return json_response(
        await run_in_thread(_change_denoiser, context.store, principal.tenant, id_, body)
    )


def _change_explanation(store: Store, tenant: str, id_: str, body: bytes) -> ExplanationSummary:
    changes = parse_model(body, MetadataPatch).metadata
    with store.database.transaction() as session:
        metadata_changes.change(session, explanations.get(session, id_, tenant), changes)
    return read_summary(store, tenant, id_)


def _change_dataset(store: Store, tenant: str, reference: str, body: bytes) -> DatasetResource:
    changes = parse_model(body, MetadataPatch).metadata
    with store.database.transaction() as session:
        found = datasets.find(session, reference, tenant)
        return dataset_resource(metadata_changes.change(session, found, changes))


def _change_denoiser(store: Store, tenant: str, id_: str, body: bytes) -> DenoiserResource:
    changes = parse_model(body, MetadataPatch).metadata
    with store.database.transaction() as session:
        found = denoisers.get(session, id_, tenant)
        changed = metadata_changes.change(session, found, changes)
        return denoiser_resource(changed, jobs.get(session, changed.job_id, tenant))
