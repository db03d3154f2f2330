"""Finds few graphs of another class that are near to many graphs of a class."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from d4explain.contracts.global_counterfactuals.requests import GlobalRequest
from d4explain.contracts.global_counterfactuals.results import GlobalResult
from d4explain.contracts.receipts.receipt import Cut
from models.global_counterfactuals.config import GLOBAL_PRESETS, GlobalConfig
from models.global_counterfactuals.explain import explain_globally
from worker.cases.work_limits import WorkLimits, as_recorded, by_clock
from worker.execution.handler_api import HandlerContext, HandlerOutput
from worker.handlers.explanation_output import explanation_output
from worker.loading.job_inputs import JobInputs, read_inputs, read_request
from worker.reporting.global_documents import global_document
from worker.reporting.receipts import receipt


def handle_global_explanation(context: HandlerContext) -> HandlerOutput:
    started = time.monotonic()
    request = GlobalRequest.model_validate_json(read_request(context.store, context.claim))
    inputs = read_inputs(context.store, context.claim)
    result = global_result(context, request, inputs, started)
    return explanation_output(context, result, global_summary(result))


def global_summary(result: GlobalResult) -> dict[str, Any]:
    return {
        "source_class": result.source_class,
        "target_class": result.target_class,
        "theta": result.theta,
        "counterfactuals": len(result.counterfactuals),
        "source_count": result.source_count,
        "covered_count": result.covered_count,
        "coverage": result.coverage,
        "reason": result.reason,
    }


def global_result(
    context: HandlerContext,
    request: GlobalRequest,
    inputs: JobInputs,
    started: float,
    recorded_cuts: Sequence[Cut] | None = None,
) -> GlobalResult:
    """Searches until the time budget ends, or as far as a recorded search did."""
    library, control = context.library, context.control
    context.phases.enter("load")
    gnn = library.gnn(inputs.gnn)
    graphs = library.reference(inputs.gnn, inputs.dataset).graphs
    preset = GLOBAL_PRESETS[request.preset]
    config = GlobalConfig(
        request.source_class,
        request.target_class,
        request.count,
        request.theta,
        seeds=preset.seeds,
        rounds=preset.rounds,
    )
    loaded = time.monotonic()
    context.phases.enter("search")
    limits = WorkLimits(
        by_clock(loaded, request.time_budget)
        if recorded_cuts is None
        else as_recorded(recorded_cuts),
        control.should_stop,
    )
    found = explain_globally(
        gnn,
        graphs,
        config,
        seed=request.seed,
        device=library.device,
        should_stop=limits.next_case(1),
        on_step=lambda step, steps: control.progress("counterfactuals", step, steps),
    )
    control.raise_if_stopped()
    return global_document(
        found,
        request,
        inputs.gnn.spec,
        graphs,
        load_seconds=loaded - started,
        explain_seconds=time.monotonic() - loaded,
        receipt=receipt(
            context,
            inputs,
            gnn,
            seed=request.seed,
            config=request.model_dump(mode="json", exclude={"kind", "seed"})
            | {"seeds": config.seeds, "rounds": config.rounds, "max_nodes": config.max_nodes},
            work={
                "gnn_evaluations": found.evaluations,
                "counterfactuals": len(found.counterfactuals),
                "covered_graphs": len(found.covered),
            },
            cuts=limits.cuts,
        ),
        is_cut=bool(limits.cuts),
    )
