"""The figures of an evaluation byte for byte, and the signed result of a gate on them."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from http import HTTPStatus

from fastapi import APIRouter, Request
from starlette.responses import Response

from d4explain.contracts.evaluations.gate import Gate
from d4explain.contracts.evaluations.gate_results import (
    GATE,
    GateDigest,
    ResourceDescriptor,
    gate_checks,
    gate_result,
)
from d4explain.contracts.evaluations.results import ComparisonResult, EvaluationResult
from d4explain.contracts.receipts.audit_chain import canonical
from d4explain.contracts.receipts.envelopes import Envelope
from service import examples
from service.context import ContextOf, run_in_thread
from service.http.bodies import json_body
from service.http.faults import reject
from service.http.json_bodies import parse_model
from service.http.openapi import json_request, problem_responses, response
from service.http.principals import Explainer, Reader
from service.http.responses import caching_headers, entity_tag, json_response, not_modified
from service.signer import Signer
from service.submission.resource_ids import checked_id, report_at
from store.catalogue.evaluations import comparisons, evaluations
from store.database import audit_entries
from store.database.tables import Comparison, Evaluation
from store.errors import Conflict
from store.store import Store

router = APIRouter(tags=["evaluations"])


@router.get(
    "/v1/evaluations/{evaluation_id}/result",
    summary="The figures of an evaluation, byte for byte",
    description="The stored document, whose SHA-256 is in the audit log, in reports and in signed "
    "test results. 409 before the evaluation has succeeded.",
    responses={
        200: response("The figures.", EvaluationResult, examples.EVALUATION["result"]),
        304: response("Not modified."),
        **problem_responses(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    },
)
def get_evaluation_result(
    request: Request, context: ContextOf, principal: Reader, evaluation_id: str
) -> Response:
    checked_id("evaluation", evaluation_id)
    with context.store.database.reading() as session:
        digest = _digest(evaluations.get(session, evaluation_id, principal.tenant))
    tag = entity_tag(digest.encode())
    headers = caching_headers(tag)
    unchanged = not_modified(request, tag, headers)
    if unchanged is not None:
        return unchanged
    stored = context.store.artifacts.of(principal.tenant).get(digest)
    return Response(stored, headers=headers, media_type="application/json")


@router.post(
    "/v1/evaluations/{evaluation_id}/test-result",
    summary="A signed test result of a gate",
    description="Checks the thresholds of a gate on the figures and signs what it found: an "
    "in-toto statement about the GNN in a DSSE envelope, with the predicate `test-result/v0.1`. "
    "`FAILED`: a threshold is crossed, or its figure was not measured. `WARNED`: none is, but the "
    "interval of a figure reaches beyond a limit. `PASSED`: no such doubt. Without a threshold "
    "there is no result. `d4explain verify` checks it offline.",
    responses={
        200: response("The envelope.", Envelope, examples.ENVELOPE),
        **problem_responses(
            HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNSUPPORTED_MEDIA_TYPE
        ),
    },
    openapi_extra=json_request(Gate, {"two thresholds": examples.GATE_IN}),
)
async def sign_test_result(
    request: Request, context: ContextOf, principal: Explainer, evaluation_id: str
) -> Response:
    checked_id("evaluation", evaluation_id)
    gate = parse_model(await json_body(request), Gate)
    envelope = await run_in_thread(
        _signed, context.store, context.signer, principal.tenant, evaluation_id, gate
    )
    return json_response(envelope)


def _signed(store: Store, signer: Signer, tenant: str, evaluation_id: str, gate: Gate) -> Envelope:
    if gate.evaluation.id not in (None, evaluation_id):
        reject("/evaluation/id", f"is {gate.evaluation.id!r}, but the path names {evaluation_id}")
    if gate.comparison is not None and gate.comparison.id is None:
        reject("/comparison/id", "is missing; name a comparison of this evaluation")
    with store.database.reading() as session:
        evaluation = evaluations.get(session, evaluation_id, tenant)
        digest = _digest(evaluation)
        comparison = None
        if gate.comparison is not None and gate.comparison.id is not None:
            with report_at("/comparison/id"):
                comparison = comparisons.get(session, gate.comparison.id, tenant)
    # Reading compares the stored bytes with the digest that the worker's fenced commit recorded.
    result = EvaluationResult.model_validate_json(store.artifacts.of(tenant).get(digest))
    compared = None if comparison is None else _compared(comparison, evaluation_id)
    found = gate_result(
        gate_checks(gate, result, compared),
        _configuration(gate, evaluation, result, comparison),
    )
    envelope = signer.test_result(evaluation.gnn_id, result.receipt.gnn_sha256, found)
    with store.database.transaction() as session:  # its entry in the audit log
        action = audit_entries.current_action()
        if action is not None:
            sha256 = hashlib.sha256(base64.b64decode(envelope.payload)).hexdigest()
            audit_entries.note(session, replace(action, content_sha256=sha256))
    return envelope


def _compared(comparison: Comparison, evaluation_id: str) -> ComparisonResult:
    """The candidate is what is tested; the baseline would pass for another GNN's faults."""
    if comparison.candidate_id != evaluation_id:
        reject(
            "/comparison/id",
            f"is {comparison.id}, whose candidate is {comparison.candidate_id}, not "
            f"{evaluation_id}",
        )
    if comparison.result is None:
        raise Conflict(f"comparison {comparison.id} has no result yet")
    return ComparisonResult.model_validate(comparison.result)


def _configuration(
    gate: Gate,
    evaluation: Evaluation,
    result: EvaluationResult,
    comparison: Comparison | None,
) -> list[ResourceDescriptor]:
    written = canonical(gate.model_dump(mode="json")).encode()
    described = [
        ResourceDescriptor(
            name=GATE,
            digest=GateDigest(sha256=hashlib.sha256(written).hexdigest()),
            content=base64.b64encode(written).decode(),
            mediaType="application/json",
        )
    ]
    digests = {
        f"{evaluation.id}/result": evaluation.result_digest or "",
        f"reference set {evaluation.dataset_id}": result.receipt.dataset_sha256,
        f"test set {result.test.dataset}": result.test.sha256,
    }
    if comparison is not None:
        stored = canonical(comparison.result).encode()
        digests[f"{comparison.id}/result"] = hashlib.sha256(stored).hexdigest()
    return described + [
        ResourceDescriptor(name=name, digest=GateDigest(sha256=sha256))
        for name, sha256 in digests.items()
    ]


def _digest(evaluation: Evaluation) -> str:
    if evaluation.result_digest is None:
        raise Conflict(f"evaluation {evaluation.id} has no figures yet")
    return evaluation.result_digest
