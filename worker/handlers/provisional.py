"""Finds a provisional answer at once, without anything that has to be trained first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field, TypeAdapter

from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.job_states import Stage
from d4explain.contracts.receipts.receipt import Cut
from d4explain.contracts.requests import ClassRequest, CounterfactualRequest
from d4explain.contracts.results import ClassResult
from worker.execution.handler_api import HandlerContext, HandlerOutput
from worker.handlers.class_explanation import class_result, class_summary
from worker.handlers.counterfactual import counterfactual_result
from worker.handlers.explanation_output import explanation_output
from worker.loading.job_inputs import JobInputs, named_judges, read_inputs, read_request

_REQUEST: TypeAdapter[CounterfactualRequest | ClassRequest] = TypeAdapter(
    Annotated[CounterfactualRequest | ClassRequest, Field(discriminator="kind")]
)
_CHAINS = "patterns that chains of the denoiser visit, with their likelihood and their steps"
_IN_TRAINING = "this answer is provisional, and the witnesses are still being trained"


def handle_provisional(context: HandlerContext) -> HandlerOutput:
    started = time.monotonic()
    asked = _REQUEST.validate_json(read_request(context.store, context.claim))
    if isinstance(asked, ClassRequest):
        inputs = read_inputs(context.store, context.claim)
        patterns = provisional_class_result(context, asked, inputs, started)
        return explanation_output(context, patterns, class_summary(patterns), Stage.PROVISIONAL)
    inputs = read_inputs(context.store, context.claim, named_judges(asked))
    result = provisional_result(context, asked, inputs, started)
    summary = result.summary.model_dump(mode="json")
    return explanation_output(context, result, summary, Stage.PROVISIONAL)


def provisional_result(
    context: HandlerContext,
    asked: CounterfactualRequest,
    inputs: JobInputs,
    started: float,
    recorded_cuts: Sequence[Cut] | None = None,
) -> CounterfactualResult:
    has_witnesses = inputs.witness_set is not None
    searched = _searched(asked, has_witnesses)
    result = counterfactual_result(context, searched, inputs, started, recorded_cuts)
    adds = final_adds(asked, has_witnesses)
    return result.model_copy(update={"stage": Stage.PROVISIONAL, "final_adds": adds})


def provisional_class_result(
    context: HandlerContext,
    asked: ClassRequest,
    inputs: JobInputs,
    started: float,
    recorded_cuts: Sequence[Cut] | None = None,
) -> ClassResult:
    result = class_result(context, asked, replace(inputs, denoiser=None), started, recorded_cuts)
    return result.model_copy(update={"stage": Stage.PROVISIONAL, "final_adds": [_CHAINS]})


def _searched(asked: CounterfactualRequest, has_witnesses: bool) -> CounterfactualRequest:
    """The request as the explainer `search` answers it without training.

    The preset `fast` bounds the time: where no edit set flips the GNN, a wider search takes tens
    of times as long.
    """
    reason = asked.no_witnesses if has_witnesses else asked.no_witnesses or _IN_TRAINING
    return asked.model_copy(
        update={
            "explainer": "search",
            "preset": "fast",
            "aim": "minimal",
            "no_witnesses": reason,
        }
    )


def final_adds(asked: CounterfactualRequest, has_witnesses: bool) -> list[str]:
    """What the final answer to a request will have and the provisional one has not."""
    adds = []
    if asked.aim != "minimal" and asked.no_witnesses is None:
        adds.append("believable answers, which also convince other networks; these are minimal")
    if not has_witnesses and asked.no_witnesses is None and asked.judges != "none":
        adds.append("verdicts: whether networks trained on the same data share each flip")
    if asked.preset != "fast":
        adds.append("a wider search, which may find fewer edits")
    if asked.explainer == "d4":
        adds.append("edits that the denoiser proposes, with plausibility and typicality")
    return adds
