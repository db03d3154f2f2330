"""KServe's V1 protocol: readiness of a model, and explanations that the response carries."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from d4explain.contracts.counterfactual_results import CounterfactualAnswer
from d4explain.contracts.job_states import GnnState, JobState, Stage
from d4explain.contracts.results import Prediction
from service import examples
from service.context import Context, ContextOf, handle_body, run_in_thread
from service.explanation_documents import ExplanationDocument, read_document, read_summary
from service.graph_io.json_parts import JsonPart
from service.http.bodies import PostedBody, posted_json
from service.http.idempotency import submission_of
from service.http.openapi import (
    IDEMPOTENCY_KEY,
    PREFER,
    json_request,
    problem_responses,
    response,
)
from service.http.principals import Explainer, Reader
from service.http.problems import MEDIA_TYPE, ProblemError
from service.http.responses import accepted_headers, json_response
from service.http.waiting import MAX_WAIT_SECONDS, parse_prefer
from service.resources import ExplanationLinks, Resource
from service.routes.explaining.answers import seconds_until, wait_for_answer
from service.routes.explaining.explanations import submit_posted
from service.submission.explanation_checks import PostedExplanation
from service.submission.explanation_submissions import Committed
from service.submission.kserve_requests import KserveIn, explanation_body
from store.catalogue import gnns
from store.store import Store

_TRANSLATED = "kserve_translated"  # in the state of a request: pointers are those of our body


class _KserveRoute(APIRoute):
    """Adds KServe's `error` to every problem, and names fields as the caller does."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_as_kserve(request: Request) -> Response:
            try:
                return await handle(request)
            except Exception as error:
                handlers = request.app.exception_handlers
                known = (handlers.get(kind) for kind in type(error).__mro__)
                on_error = next((one for one in known if one is not None), None)
                if on_error is None or type(error) is Exception:
                    raise
                is_translated = getattr(request.state, _TRANSLATED, False)
                return _as_kserve(await on_error(request, error), is_translated)

        return handle_as_kserve


router = APIRouter(tags=["KServe"], route_class=_KserveRoute)


class ModelReady(Resource):
    name: str = Field(description="The name that was asked for.")
    ready: bool = Field(description="Always true; a model that is not ready gets 503.")


class KserveExplanation(Resource):
    explanation: str = Field(description="Id of the explanation of all instances.")
    instance: int = Field(description="Index of the instance.")
    state: JobState = Field(description="State of the explanation.")
    stage: Stage | None = Field(
        description="Which answer this is; `provisional` if the final one takes longer than the "
        "request waits. Null without an answer."
    )
    answer: CounterfactualAnswer | None = Field(
        description="Counterfactuals of this instance, best first; null if it takes longer."
    )
    links: ExplanationLinks = Field(description="Paths of the explanation, its job and its events.")


class KserveExplanations(Resource):
    predictions: list[Prediction] = Field(
        description="What the GNN says of each instance; empty without an answer."
    )
    explanations: list[KserveExplanation] = Field(description="One for each instance, in order.")


class ExplainQuery(BaseModel):
    """How long to wait."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    wait_for: Stage = Field(
        Stage.FINAL, description="`provisional`: answer as soon as there is a first answer."
    )


@router.get(
    "/v1/models/{model_name}",
    summary="Whether a GNN is ready, in KServe's shape",
    description="`model_name` is a name, `name@version`, `name@alias` or an id of a GNN. 503 while "
    "the GNN is probed, or if it was rejected.",
    responses={
        200: response("Ready.", ModelReady, examples.KSERVE_READY),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE),
    },
)
async def get_model(context: ContextOf, principal: Reader, model_name: str) -> Response:
    state = await run_in_thread(_state, context.store, principal.tenant, model_name)
    if state is not GnnState.READY:
        raise ProblemError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "gnn-not-ready",
            f"Model with name {model_name} is not ready: it is {state}.",
        )
    return json_response(ModelReady(name=model_name, ready=True))


@router.post(
    "/v1/models/{model_name}:explain",
    summary="Explain instances, in KServe's shape",
    description="Counterfactuals of each instance, as `POST /v1/explanations` finds them. The "
    f"request waits {MAX_WAIT_SECONDS} s, or as long as `Prefer: wait=n` says. If the final answer "
    "takes longer, the response has the provisional one; without that it is 202 with the links of "
    "the explanation. The reference set is `parameters.dataset`, else the tag `dataset` of the "
    "GNN, else the only one that fits the GNN. Errors are problems with KServe's `error`; an "
    "explanation that failed gets 500.",
    responses={
        200: response("The answers.", KserveExplanations, examples.KSERVE_EXPLANATIONS),
        202: response("Not ready in time.", KserveExplanations, examples.KSERVE_LATER),
        **problem_responses(
            HTTPStatus.NOT_FOUND,
            HTTPStatus.CONFLICT,
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            HTTPStatus.INTERNAL_SERVER_ERROR,
            HTTPStatus.SERVICE_UNAVAILABLE,
        ),
    },
    openapi_extra=json_request(
        KserveIn,
        {"graphs": examples.KSERVE_IN, "nodes": examples.KSERVE_NODES_IN},
        PREFER,
        IDEMPOTENCY_KEY,
    ),
)
async def explain_model(
    request: Request,
    context: ContextOf,
    principal: Explainer,
    *,
    model_name: str,
    query: Annotated[ExplainQuery, Query()],
) -> Response:
    wait = parse_prefer(request.headers.get("prefer"), default=MAX_WAIT_SECONDS)
    committed, instances = await _submit(request, context, principal.tenant, model_name)
    context.wake_dispatcher(*committed.queued)
    id_, tenant = committed.created.id, principal.tenant
    summary = await run_in_thread(read_summary, context.store, tenant, id_)
    wait = await wait_for_answer(request, context, summary, query.wait_for, wait, tenant=tenant)
    document = await run_in_thread(read_document, context.store, tenant, id_)
    answered = await run_in_thread(_answered, context.store, document, instances)
    headers = {**wait.headers, **committed.created.headers}
    if answered.predictions:
        content = await run_in_thread(answered.model_dump_json)  # may be large
        return Response(content, 200, headers, media_type="application/json")
    if document.summary.state.is_terminal:
        raise _failure(document)
    seconds = seconds_until(document.summary, query.wait_for)
    location = accepted_headers(f"/v1/explanations/{id_}", seconds)
    return json_response(answered, 202, {**location, **headers})


async def _submit(
    request: Request, context: Context, tenant: str, model_name: str
) -> tuple[Committed, int]:
    """The explanation, and the number of instances."""
    async with posted_json(request) as body:
        submission = submission_of(request, tenant, body)
        translated, count = await handle_body(
            context, body.size, explanation_body, tenant, model_name, body
        )
    setattr(request.state, _TRANSLATED, True)
    posted = PostedExplanation(PostedBody.of(translated), submission)
    return await submit_posted(context, posted), count


def _state(store: Store, tenant: str, model_name: str) -> GnnState:
    with store.database.reading() as session:
        return gnns.find(session, model_name, tenant).state


def _answered(store: Store, document: ExplanationDocument, instances: int) -> KserveExplanations:
    summary = document.summary
    answers: list[CounterfactualAnswer | None] = [None] * instances
    if document.result_digest is not None:
        result = store.artifacts.of(document.tenant).get(document.result_digest)
        parts = JsonPart.whole(result).members()["answers"].elements()
        answers = [CounterfactualAnswer.model_validate_json(part.text) for part in parts]
    return KserveExplanations(
        predictions=[one.prediction for one in answers if one is not None],
        explanations=[
            KserveExplanation(
                explanation=summary.id,
                instance=index,
                state=summary.state,
                stage=summary.result_stage,
                answer=answer,
                links=summary.links,
            )
            for index, answer in enumerate(answers)
        ],
    )


def _failure(document: ExplanationDocument) -> ProblemError:
    summary = document.summary
    reason = summary.job.error.message if summary.job.error is not None else "no reason is known"
    return ProblemError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "explanation-failed",
        f"The explanation {summary.id} is {summary.state}: {reason}",
        explanation=summary.id,
    )


def _as_kserve(refusal: JSONResponse, is_translated: bool) -> JSONResponse:
    content = json.loads(bytes(refusal.body))
    status = refusal.status_code
    if content["type"].endswith(":gnn-not-ready"):
        status = content["status"] = int(HTTPStatus.SERVICE_UNAVAILABLE)
        content["title"] = HTTPStatus.SERVICE_UNAVAILABLE.phrase
    for fault in content.get("errors", ()):
        if is_translated and "pointer" in fault:
            fault["pointer"] = _posted_pointer(fault["pointer"])
    places = [
        f"{fault['pointer']}: {fault['detail']}"
        for fault in content.get("errors", ())
        if "pointer" in fault
    ]
    if places:
        content["detail"] = "; ".join(places)
    kept = {
        name: value
        for name, value in refusal.headers.items()
        if name not in ("content-length", "content-type")
    }
    error = {"error": content["detail"], **content}
    return JSONResponse(error, status, kept, media_type=MEDIA_TYPE)


def _posted_pointer(pointer: str) -> str:
    """Where the caller wrote what the body of `POST /v1/explanations` has elsewhere."""
    for name in ("/graphs", "/nodes"):
        if pointer == name or pointer.startswith(f"{name}/"):
            return f"/instances{pointer.removeprefix(name)}"
    return f"/parameters{pointer}" if pointer else ""
