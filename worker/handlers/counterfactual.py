"""Finds counterfactuals: one answer per graph or node, independent of the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict

from d4explain.contracts.counterfactual_results import CounterfactualResult
from d4explain.contracts.features.gnn_names import gnn_names
from d4explain.contracts.receipts.receipt import Cut
from d4explain.contracts.requests import PLAIN_EXPLAINERS, CounterfactualRequest
from d4explain.gnn.network import Gnn
from models.counterfactual.believable.search import BELIEVABLE_PRESETS
from models.counterfactual.explain import CounterfactualConfig, CounterfactualOutcome
from models.counterfactual.large.candidate_space import CandidateConfig
from models.counterfactual.panel import Panel
from models.counterfactual.search.search_config import PRESETS
from models.diffusion.edge_denoiser import EdgeDenoiser
from models.explainers.interface import Explainer
from store.catalogue import gnns
from worker.cases.graph_cases import Case, cases_of
from worker.cases.large_cases import large_cases, neighbourhood_warnings, restriction_warnings
from worker.cases.work_limits import WorkLimits, as_recorded, by_clock
from worker.execution.handler_api import HandlerContext, HandlerOutput
from worker.handlers.explainers import SAMPLERS, explainer_of, explainer_settings
from worker.handlers.explanation_output import explanation_output
from worker.loading.answer_panel import answer_panel, type_warnings
from worker.loading.black_box import BlackBox
from worker.loading.job_inputs import JobInputs, named_judges, read_inputs, read_request
from worker.loading.open_gnn import black_box_of, open_gnn
from worker.reporting.answer_metrics import counterfactual_observations
from worker.reporting.documents import counterfactual_answer
from worker.reporting.factual_documents import with_factual
from worker.reporting.receipts import form_warnings, receipt, timings
from worker.reporting.reference_distances import Distance, distance_to_reference
from worker.reporting.summaries import aim_warnings, summary
from worker.reporting.typicality import answer_typicality, typicality_warnings


def handle_counterfactual(context: HandlerContext) -> HandlerOutput:
    started = time.monotonic()
    request = CounterfactualRequest.model_validate_json(read_request(context.store, context.claim))
    inputs = read_inputs(context.store, context.claim, named_judges(request))
    result = counterfactual_result(context, request, inputs, started)
    return explanation_output(
        context,
        result,
        result.summary.model_dump(mode="json"),
        observed=counterfactual_observations(inputs, result, request.target_class),
    )


def counterfactual_result(
    context: HandlerContext,
    request: CounterfactualRequest,
    inputs: JobInputs,
    started: float,
    recorded_cuts: Sequence[Cut] | None = None,
) -> CounterfactualResult:
    """Searches until the time budget ends, or as far as a recorded search did."""
    library = context.library
    context.phases.enter("load")
    gnn = open_gnn(library, context.store.settings, inputs.gnn, max_queries=request.max_queries)
    denoiser = None if inputs.denoiser is None else library.denoiser(inputs.denoiser)
    box = black_box_of(gnn)
    judging = answer_panel(library, request, inputs)
    config = CounterfactualConfig(
        target_class=request.target_class,
        alternatives=request.alternatives,
        aim=judging.aim,
        sampler=SAMPLERS[request.explainer],
        search=PRESETS[request.preset],
        believable=BELIEVABLE_PRESETS[request.preset],
        candidates=CandidateConfig(above_nodes=library.exact_nodes),
    )
    cases = _cases(context, request, inputs, gnn)
    loaded = time.monotonic()
    context.phases.enter("search")
    limits = WorkLimits(
        by_clock(loaded, request.time_budget)
        if recorded_cuts is None
        else as_recorded(recorded_cuts),
        context.control.should_stop,
    )
    explainer = explainer_of(context, request, inputs, gnn)
    outcomes = _explain_cases(
        context,
        cases,
        gnn=gnn,
        explainer=explainer,
        denoiser=denoiser,
        config=config,
        panel=judging.panel,
        limits=limits,
    )
    context.phases.enter("typicality")
    figures = [
        answer_typicality(denoiser, case.graph, outcome, library.device)
        for case, outcome in zip(cases, outcomes, strict=True)
    ]
    explained = time.monotonic()
    context.phases.enter("distances")
    unit = "nodes" if gnn.spec.classifies_nodes else "graphs"
    distance = _distance(context, inputs, outcomes, request.seed)
    names = gnn_names(inputs.gnn.spec)
    answers = [
        with_factual(
            figure.added_to(
                counterfactual_answer(
                    case.document, outcome, case.node(), case.molecule, names=names
                )
            ),
            case.document,
            outcome.factual,
            names,
        )
        for case, outcome, figure in zip(cases, outcomes, figures, strict=True)
    ]
    return CounterfactualResult(
        answers=answers,
        summary=summary(answers, request.target_class),
        mmd=distance.mmd,
        timings=timings(started, loaded, explained),
        receipt=receipt(
            context,
            inputs,
            gnn,
            seed=request.seed,
            config=_resolved_config(request, config),
            work={
                "gnn_evaluations": sum(outcome.gnn_evaluations for outcome in outcomes),
                "gnn_gradients": sum(outcome.gnn_gradients for outcome in outcomes),
                "samples": sum(outcome.samples for outcome in outcomes),
                "depth": max((outcome.depth for outcome in outcomes), default=0),
                "cut_by_time_budget": len(limits.cuts),
                **({} if box is None else {"queries": box.queries}),
            },
            graphs=request.graphs,
            cuts=limits.cuts,
        ),
        judges=list(judging.judges),
        unjudged_reason=judging.unjudged_reason,
        warnings=[
            *request.warnings,
            *form_warnings(gnn),
            *judging.warnings,
            *type_warnings(judging.panel, [case.graph for case in cases]),
            *aim_warnings(judging.aim, answers),
            *(["the query budget ended the search"] if box and box.is_nearly_exhausted else []),
            *limits.warnings(len(answers), unit),
            *neighbourhood_warnings(answers),
            *restriction_warnings(answers),
            *distance.warnings,
            *typicality_warnings(figures),
        ],
    )


def _cases(
    context: HandlerContext, request: CounterfactualRequest, inputs: JobInputs, gnn: Gnn
) -> list[Case]:
    library = context.library
    if request.graphs:
        usual = library.usual_attributes(inputs.gnn, inputs.dataset)
        return list(cases_of(request, gnn.spec, usual, max_nodes=library.exact_nodes))
    graph = library.large_graph(inputs.dataset)
    return list(
        large_cases(request, gnn.spec, graph, inputs.dataset.sha256, library.neighbourhood_nodes)
    )


def _distance(
    context: HandlerContext, inputs: JobInputs, outcomes: Sequence[CounterfactualOutcome], seed: int
) -> Distance:
    graphs = [outcome.found[0].graph for outcome in outcomes if outcome.found]
    max_nodes = context.library.exact_nodes
    largest = max((graph.node_count for graph in graphs), default=0)
    if not gnns.classifies_nodes(inputs.gnn):
        largest = max(largest, inputs.dataset.max_nodes)
    if graphs and largest > max_nodes:
        return Distance(
            None, (f"no MMD: spectra of graphs with more than {max_nodes:,} nodes take too long",)
        )
    reference = context.library.reference_statistics(inputs.gnn, inputs.dataset)
    return distance_to_reference(graphs, reference, seed=seed)


def _explain_cases(
    context: HandlerContext,
    cases: Sequence[Case],
    *,
    gnn: Gnn,
    denoiser: EdgeDenoiser | None,
    explainer: Explainer | None,
    config: CounterfactualConfig,
    panel: Panel,
    limits: WorkLimits,
) -> list[CounterfactualOutcome]:
    outcomes: list[CounterfactualOutcome] = []
    total, found = len(cases), 0
    for position, case in enumerate(cases):
        context.control.progress("explaining", position, total, {"found": found})
        should_stop = _with_query_budget(limits.next_case(total - position), black_box_of(gnn))
        outcome = case.explain(
            gnn,
            denoiser,
            config,
            device=context.library.device,
            panel=panel,
            explainer=explainer,
            should_stop=should_stop,
        )
        if case.molecule is not None and case.rules.valences is not None:
            outcome = case.molecule.only_valid(outcome)
        context.control.raise_if_stopped()
        outcomes.append(outcome)
        found += bool(outcome.found)
    context.control.progress("explaining", total, total, {"found": found})
    return outcomes


def _with_query_budget(should_stop: Callable[[], bool], box: BlackBox | None) -> Callable[[], bool]:
    return should_stop if box is None else lambda: box.is_nearly_exhausted or should_stop()


def _resolved_config(
    request: CounterfactualRequest, config: CounterfactualConfig
) -> dict[str, object]:
    """The full configuration with its defaults; frozen nodes and edges stay in the request."""
    settings = asdict(config)
    del settings["sampler"]  # the explainer names it
    if request.explainer == "d4-paper":
        settings["paper"]["decision"] = config.paper.decision.value
    else:
        del settings["paper"]
    if request.explainer not in ("d4", "d4-paper"):
        del settings["effect_source"]  # a setting of the denoiser
    if request.explainer in PLAIN_EXPLAINERS:  # they search nothing
        for unused in ("search", "believable", "prune"):
            del settings[unused]
        settings["settings"] = explainer_settings(request)
    constraints = request.constraints.model_dump(
        mode="json", exclude={"frozen_nodes", "frozen_edges"}
    )
    return settings | {
        "explainer": request.explainer,
        "preset": request.preset,
        "constraints": constraints,
        "judges": request.judges,
        "time_budget": request.time_budget,
    }
