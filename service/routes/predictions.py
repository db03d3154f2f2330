"""Predictions of the GNN for posted graphs; short jobs, so requests wait for them by default."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from d4explain.contracts.job_states import JobKind
from service import examples
from service.context import Context, ContextOf, handle_body, run_in_thread
from service.http.bodies import PostedBody, posted_json
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
    PREFER,
    json_request,
    problem_responses,
    response,
    response_variants,
)
from service.http.principals import Explainer
from service.http.responses import accepted_headers, json_response
from service.http.waiting import DEFAULT_WAIT_SECONDS, parse_prefer
from service.resource_builders import predictions_resource
from service.resources import PredictionsResource
from service.routes.jobs import wait_for_job
from service.schemas import PredictionsIn
from service.submission.explanation_requests import prediction_request
from service.submission.request_webhooks import checked_webhook
from store import jobs
from store.catalogue import gnns
from store.store import Store
from store.webhooks import endpoints

router = APIRouter(tags=["GNNs"])


@router.post(
    "/v1/gnns/{gnn_id}/predictions",
    summary="Classify graphs or nodes",
    description="Waits for the predictions, by default 10 s. After that, the response is 202 with "
    "the job's address; the job will have the `result`. A GNN that classifies nodes predicts "
    "`nodes`, or all nodes if not given.",
    responses={
        200: response_variants(
            "The job has ended; `predictions` is null if it failed.",
            {
                "of graphs": (PredictionsResource, examples.PREDICTIONS),
                "of nodes": (PredictionsResource, examples.NODE_PREDICTIONS),
            },
        ),
        202: response(
            "The job has not ended yet.", PredictionsResource, examples.PREDICTIONS_LATER
        ),
        **problem_responses(
            HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE
        ),
    },
    openapi_extra=json_request(
        PredictionsIn,
        {"one graph": examples.PREDICTIONS_IN, "some nodes": examples.NODE_PREDICTIONS_IN},
        PREFER,
        IDEMPOTENCY_KEY,
    ),
)
async def predict(
    request: Request, context: ContextOf, principal: Explainer, gnn_id: str
) -> Response:
    wait = parse_prefer(request.headers.get("prefer"), DEFAULT_WAIT_SECONDS)
    created = await _submit(request, context, principal.tenant, gnn_id)
    context.wake_dispatcher()
    wait = await wait_for_job(request, context, principal.tenant, created.id, wait)
    predictions = await run_in_thread(read_predictions, context.store, principal.tenant, created.id)
    headers = {**wait.headers, **created.headers}
    if predictions.job.state.is_terminal:
        return json_response(predictions, 200, headers)
    return json_response(
        predictions, 202, {**accepted_headers(f"/v1/jobs/{created.id}"), **headers}
    )


async def _submit(request: Request, context: Context, tenant: str, gnn_id: str) -> Created:
    async with posted_json(request) as body:
        submission = submission_of(request, tenant, body)
        return await handle_body(context, body.size, create, gnn_id, body, submission)


def create(store: Store, reference: str, body: PostedBody, submission: Submission) -> Created:
    created = already_created(store, submission)
    if created is not None:
        return created
    posted = parse_model(body.read(), PredictionsIn)
    webhook = checked_webhook(posted.webhook, store.settings)
    with store.database.reading() as session:
        gnn = gnns.require_ready(session, reference, submission.tenant, lock=False)
    job_request = prediction_request(posted, gnn, store.settings)
    digest = store.artifacts.of(submission.tenant).put(job_request.model_dump_json().encode())

    def create_row(session: Session) -> str:
        gnns.require_ready(session, gnn.id, submission.tenant)
        job = jobs.submit(
            session,
            kind=JobKind.PREDICT,
            subject_id=gnn.id,
            gnn_id=gnn.id,
            request_digest=digest,
            metadata=posted.metadata,
            tenant=submission.tenant,
        )
        if webhook is not None:
            endpoints.add_all(session, [(webhook, job)])
        return job.id

    return create_once(store, submission, create_row)


def read_predictions(store: Store, tenant: str, job_id: str) -> PredictionsResource:
    with store.database.reading() as session:
        return predictions_resource(jobs.get(session, job_id, tenant))
