"""Explains counterfactually: one answer per graph or node, each independent of the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict

from sqlalchemy.orm import Session

from d4explain.contracts.requests import CounterfactualRequest
from d4explain.contracts.results import CounterfactualResult, Timings
from d4explain.gnn.network import Gnn
from models.counterfactual.explain import CounterfactualConfig, CounterfactualOutcome
from models.counterfactual.large.candidate_space import CandidateConfig
from models.counterfactual.search_config import PRESETS
from models.diffusion.denoiser import Denoiser
from store.catalogue import explanations, gnns
from worker.cases.graph_cases import Case, cases_of
from worker.cases.large_cases import large_cases, neighbourhood_warnings, restriction_warnings
from worker.execution.handler_api import Outcome, Work
from worker.handlers.explainers import SAMPLERS
from worker.loading.black_box import BlackBox
from worker.loading.job_inputs import JobInputs, inputs_of, request_bytes
from worker.loading.open_gnn import black_box_of, open_gnn
from worker.reporting.documents import counterfactual_answer, figure, summary
from worker.reporting.receipts import form_warnings, receipt
from worker.reporting.reference_distances import Distance, distance_to_reference


def explain_counterfactually(work: Work) -> Outcome:
    started = time.monotonic()
    request = CounterfactualRequest.model_validate_json(request_bytes(work))
    subjects = inputs_of(work)
    gnn = open_gnn(work, subjects.gnn, queries=request.max_queries)
    denoiser = work.library.denoiser(subjects.denoiser)
    box = black_box_of(gnn)
    config = CounterfactualConfig(
        target_class=request.target_class,
        alternatives=request.alternatives,
        sampler=SAMPLERS[request.explainer],
        search=PRESETS[request.preset],
        candidates=CandidateConfig(above_nodes=work.library.exact_nodes),
    )
    cases = _cases(work, request, subjects, gnn)
    loaded = time.monotonic()
    clock = _Clock(loaded, request.time_budget, work.control.should_stop)
    outcomes = _explained(work, cases, gnn=gnn, denoiser=denoiser, config=config, clock=clock)
    explained = time.monotonic()
    what = "nodes" if gnn.spec.classifies_nodes else "graphs"
    distance = _distance(work, subjects, outcomes, request.seed)
    answers = [
        counterfactual_answer(case.document, outcome, case.node(), case.molecule)
        for case, outcome in zip(cases, outcomes, strict=True)
    ]
    result = CounterfactualResult(
        answers=answers,
        summary=summary(answers),
        mmd=distance.mmd,
        timings=Timings(
            load_seconds=figure(loaded - started),
            explain_seconds=figure(explained - loaded),
            mmd_seconds=figure(time.monotonic() - explained),
        ),
        receipt=receipt(
            work,
            subjects,
            gnn,
            seed=request.seed,
            config=_resolved(request, config),
            done={
                "gnn_evaluations": sum(outcome.gnn_evaluations for outcome in outcomes),
                "gnn_gradients": sum(outcome.gnn_gradients for outcome in outcomes),
                "samples": sum(outcome.samples for outcome in outcomes),
                "depth": max((outcome.depth for outcome in outcomes), default=0),
                "cut_by_time_budget": clock.cut,
                **({} if box is None else {"queries": box.queries}),
            },
        ),
        warnings=[
            *form_warnings(gnn),
            *(["the query budget ended the search"] if box and box.nearly_used_up else []),
            *clock.warnings(len(answers), what),
            *neighbourhood_warnings(answers),
            *restriction_warnings(answers),
            *distance.warnings,
        ],
    )
    digest = work.store.artifacts.put(result.model_dump_json().encode())

    def record(session: Session) -> None:
        explanations.finish(
            session,
            work.claim,
            result_digest=digest,
            summary=result.summary.model_dump(mode="json"),
        )

    return Outcome(
        result={"kind": "explanation", "explanation": work.claim.subject_id}, record=record
    )


def _cases(work: Work, request: CounterfactualRequest, subjects: JobInputs, gnn: Gnn) -> list[Case]:
    library = work.library
    if request.graphs:
        usual = library.usual_attributes(subjects.gnn, subjects.dataset)
        return list(cases_of(request, gnn.spec, usual, max_nodes=library.exact_nodes))
    graph = library.large_graph(subjects.dataset)
    return list(
        large_cases(request, gnn.spec, graph, subjects.dataset.sha256, library.neighbourhood_nodes)
    )


def _distance(
    work: Work, subjects: JobInputs, outcomes: Sequence[CounterfactualOutcome], seed: int
) -> Distance:
    graphs = [outcome.found[0].graph for outcome in outcomes if outcome.found]
    most = work.library.exact_nodes
    largest = max((graph.node_count for graph in graphs), default=0)
    if not gnns.classifies_nodes(subjects.gnn):
        largest = max(largest, subjects.dataset.max_nodes)
    if graphs and largest > most:
        return Distance(None, (f"no MMD: spectra of more than {most:,} nodes take too long",))
    reference = work.library.reference_statistics(subjects.gnn, subjects.dataset)
    return distance_to_reference(graphs, reference, seed=seed)


def _explained(
    work: Work,
    cases: Sequence[Case],
    *,
    gnn: Gnn,
    denoiser: Denoiser,
    config: CounterfactualConfig,
    clock: _Clock,
) -> list[CounterfactualOutcome]:
    outcomes: list[CounterfactualOutcome] = []
    total, found = len(cases), 0
    for position, case in enumerate(cases):
        work.control.progress("explaining", position, total, {"found": found})
        stop = _within_budget(clock.for_one_of(total - position), black_box_of(gnn))
        outcome = case.explained(gnn, denoiser, config, work.library.device, stop)
        if case.molecule is not None and case.rules.valences is not None:
            outcome = case.molecule.only_valid(outcome)
        work.control.raise_if_stopped()
        outcomes.append(outcome)
        found += bool(outcome.found)
    work.control.progress("explaining", total, total, {"found": found})
    return outcomes


def _within_budget(stop: Callable[[], bool], box: BlackBox | None) -> Callable[[], bool]:
    return stop if box is None else lambda: box.nearly_used_up or stop()


def _resolved(request: CounterfactualRequest, config: CounterfactualConfig) -> dict[str, object]:
    """Everything the sampler was told, defaults written out; frozen parts are in the request."""
    settings = asdict(config) | {"proposals": asdict(config.resolved_proposals)}
    del settings["sampler"]  # the explainer names it
    constraints = request.constraints.model_dump(
        mode="json", exclude={"frozen_nodes", "frozen_edges"}
    )
    return settings | {
        "explainer": request.explainer,
        "preset": request.preset,
        "constraints": constraints,
        "time_budget": request.time_budget,
    }


class _Clock:
    """Shares what is left of the time budget equally among the graphs or nodes that are left."""

    def __init__(
        self, started: float, budget: float | None, should_stop: Callable[[], bool]
    ) -> None:
        self._end = None if budget is None else started + budget
        self._should_stop = should_stop
        self.cut = 0  # cases whose search was ended

    def warnings(self, total: int, what: str) -> list[str]:
        if not self.cut:
            return []
        return [f"the time budget ended the search on {self.cut} of {total} {what}"]

    def for_one_of(self, left: int) -> Callable[[], bool]:
        if self._end is None:
            return self._should_stop
        now = time.monotonic()
        deadline = now + max(0.0, self._end - now) / left
        cut = False

        def should_stop() -> bool:
            nonlocal cut
            if not cut and time.monotonic() >= deadline:
                cut = True
                self.cut += 1
            return cut or self._should_stop()

        return should_stop
