"""Repeats the work of an answer from its stored inputs and compares the answers."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.global_counterfactuals.requests import GlobalRequest
from d4explain.contracts.global_counterfactuals.results import GlobalResult
from d4explain.contracts.job_states import Stage
from d4explain.contracts.receipts.receipt import Receipt
from d4explain.contracts.receipts.replay_reports import ReplayOutcome, ReplayReport
from d4explain.contracts.requests import ClassRequest, CounterfactualRequest
from d4explain.contracts.results import ClassResult
from store.catalogue import replays
from store.database.tables import Replay
from worker.execution.handler_api import HandlerContext, HandlerOutput
from worker.handlers.class_explanation import class_result
from worker.handlers.counterfactual import counterfactual_result
from worker.handlers.global_explanation import global_result
from worker.handlers.provisional import provisional_class_result, provisional_result
from worker.loading.job_inputs import JobInputs, read_inputs, read_request
from worker.reporting.documents import rounded
from worker.reporting.environment import environment_of, why_not_comparable
from worker.reporting.replay_comparison import replay_report


def handle_replay(context: HandlerContext) -> HandlerOutput:
    store, claim = context.store, context.claim
    with store.database.reading() as session:
        replay = replays.get(session, claim.subject_id or "", claim.tenant)
        answer = replays.recorded_answer(session, replay.explanation_id, claim.tenant, replay.stage)
    recorded = json.loads(store.artifacts.of(claim.tenant).get(replay.answer_digest))
    receipt = Receipt.model_validate(recorded["receipt"])
    with store.database.reading() as session:
        replays.require_inputs(session, store.artifacts, answer, receipt)
    reason = why_not_comparable(receipt.environment, environment_of(context.library.device))
    report = _not_comparable(reason) if reason else _compared(context, replay, recorded, receipt)
    return HandlerOutput(
        result={"kind": "replay", "replay": replay.id, "outcome": report.outcome.value},
        record=lambda session: replays.finish(session, claim, report),
    )


def _not_comparable(reason: str) -> ReplayReport:
    return ReplayReport(
        outcome=ReplayOutcome.NOT_COMPARABLE,
        reason=reason,
        compared_values=0,
        difference_count=0,
        differences=[],
        changed_versions={},
        seconds=0.0,
    )


def _compared(
    context: HandlerContext, replay: Replay, recorded: dict[str, Any], receipt: Receipt
) -> ReplayReport:
    started = time.monotonic()
    result = _repeated(_with_recorded_limits(context, receipt), replay, receipt, started)
    repeated = json.loads(result.model_dump_json())
    return replay_report(recorded, repeated, rounded(time.monotonic() - started))


def _repeated(
    context: HandlerContext, replay: Replay, receipt: Receipt, started: float
) -> CounterfactualResult | ClassResult | GlobalResult:
    inputs = _recorded_inputs(context, receipt)
    is_provisional = replay.stage is Stage.PROVISIONAL
    document = read_request(context.store, context.claim)
    kind = json.loads(document)["kind"]
    if kind == "global":
        question = GlobalRequest.model_validate_json(document)
        return global_result(context, question, inputs, started, receipt.cuts)
    if kind == "class":
        asked = ClassRequest.model_validate_json(document)
        explain = provisional_class_result if is_provisional else class_result
        return explain(context, asked, inputs, started, receipt.cuts)
    request = CounterfactualRequest.model_validate_json(document)
    repeat = provisional_result if is_provisional else counterfactual_result
    return repeat(context, request, inputs, started, receipt.cuts)


def _recorded_inputs(context: HandlerContext, receipt: Receipt) -> JobInputs:
    """The inputs as they were: witnesses that were trained later do not judge."""
    inputs = read_inputs(context.store, context.claim, list(receipt.judges))
    return replace(inputs, witness_failure=receipt.witness_failure)


def _with_recorded_limits(context: HandlerContext, receipt: Receipt) -> HandlerContext:
    """The settings of this deployment may have changed since."""
    limits, library = receipt.limits, context.library
    if limits is None or limits == library.limits:
        return context
    return replace(context, library=library.with_limits(limits))
