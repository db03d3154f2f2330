"""Stores the result of an explanation, for all kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.global_counterfactuals.results import GlobalResult
from d4explain.contracts.job_states import Stage
from d4explain.contracts.results import ClassResult
from store.catalogue import explanations
from store.database import observations
from store.database.observations import Observation
from worker.execution.handler_api import HandlerContext, HandlerOutput


def explanation_output(
    context: HandlerContext,
    result: CounterfactualResult | ClassResult | GlobalResult,
    summary: dict[str, Any],
    stage: Stage = Stage.FINAL,
    observed: Sequence[Observation] = (),
) -> HandlerOutput:
    digest = context.store.artifacts.of(context.claim.tenant).put(result.model_dump_json().encode())
    finish = explanations.finish if stage is Stage.FINAL else explanations.finish_provisional

    def record(session: Session) -> None:
        finish(session, context.claim, result_digest=digest, summary=summary)
        observations.note(session, observed)

    return HandlerOutput(
        result={"kind": "explanation", "explanation": context.claim.subject_id}, record=record
    )
