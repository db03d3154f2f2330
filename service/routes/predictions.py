"""Predictions: what the GNN itself says about graphs; light jobs that mostly answer at once."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from d4explain.contracts.job_states import JobKind
from service import examples
from service.context import Context, ContextOf, in_thread, reading_body
from service.http.bodies import PostedBody, posted_json
from service.http.idempotency import Created, Submission, known, once, submission_of
from service.http.json_bodies import parse_model
from service.http.openapi import IDEMPOTENCY_KEY, PREFER, answer, either, problems, takes
from service.http.responses import accepted_headers, reply
from service.http.waiting import DEFAULT_WAIT_SECONDS, preference
from service.resources import PredictionsResource, predictions_resource
from service.routes.jobs import until_ended
from service.schemas import PredictionsIn
from service.submission.explanation_requests import prediction_request
from store import jobs
from store.catalogue import gnns
from store.store import Store

router = APIRouter(tags=["GNNs"])


@router.post(
    "/v1/gnns/{gnn_id}/predictions",
    summary="Let the GNN classify graphs or nodes",
    description="Waits for the answer, by default 10 s; if it takes longer, 202 and the job's "
    "address, where `result` will be. A GNN that classifies nodes answers for those in `nodes`, or "
    "for all.",
    responses={
        200: either(
            "The job has ended; `predictions` is null unless it has succeeded.",
            {
                "of graphs": (PredictionsResource, examples.PREDICTIONS),
                "of nodes": (PredictionsResource, examples.NODE_PREDICTIONS),
            },
        ),
        202: answer("Not done yet.", PredictionsResource, examples.PREDICTIONS_LATER),
        **problems(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    },
    openapi_extra=takes(
        PredictionsIn,
        {"one graph": examples.PREDICTIONS_IN, "some nodes": examples.NODE_PREDICTIONS_IN},
        PREFER,
        IDEMPOTENCY_KEY,
    ),
)
async def predict(request: Request, context: ContextOf, gnn_id: str) -> Response:
    wait = preference(request.headers.get("prefer"), DEFAULT_WAIT_SECONDS)
    made = await _submit(request, context, gnn_id)
    context.wake_dispatcher()
    wait = await until_ended(request, context, made.id, wait)
    predictions = await in_thread(read_predictions, context.store, made.id)
    headers = {**wait.headers, **made.headers}
    if predictions.job.state.is_terminal:
        return reply(predictions, 200, headers)
    return reply(predictions, 202, {**accepted_headers(f"/v1/jobs/{made.id}"), **headers})


async def _submit(request: Request, context: Context, gnn_id: str) -> Created:
    async with posted_json(request) as body:
        submission = submission_of(request, body)
        return await reading_body(context, body.size, create, gnn_id, body, submission)


def create(store: Store, reference: str, body: PostedBody, submission: Submission) -> Created:
    made = known(store, submission)
    if made is not None:
        return made
    asked = parse_model(body.read(), PredictionsIn)
    with store.database.reading() as session:
        gnn = gnns.require_ready(session, reference, lock=False)
    question = prediction_request(asked, gnn, store.settings)
    digest = store.artifacts.put(question.model_dump_json().encode())

    def make(session: Session) -> str:
        gnns.require_ready(session, gnn.id)
        return jobs.submit(
            session,
            kind=JobKind.PREDICT,
            subject_id=gnn.id,
            gnn_id=gnn.id,
            request_digest=digest,
        ).id

    return once(store, submission, make)


def read_predictions(store: Store, job_id: str) -> PredictionsResource:
    with store.database.reading() as session:
        return predictions_resource(jobs.get(session, job_id))
