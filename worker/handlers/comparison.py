"""Compares two evaluations from their committed rows."""

from __future__ import annotations

from collections.abc import Sequence

from d4explain.contracts.evaluations.requests import ComparisonRequest
from d4explain.contracts.evaluations.results import ComparisonResult, Moved
from d4explain.contracts.evaluations.rows import EvaluationRow
from models.evaluation.comparison import MovedFigure, agreement, compare
from store.catalogue.evaluations import comparisons, evaluations
from worker.evaluating.row_answers import answer_of
from worker.execution.handler_api import HandlerContext, HandlerOutput
from worker.handlers.evaluation import stored_rows
from worker.loading.job_inputs import read_request
from worker.reporting.documents import rounded

_FEW_INSTANCES = 30
_FEW_TRAININGS = 5


def handle_comparison(context: HandlerContext) -> HandlerOutput:
    store, claim = context.store, context.claim
    request = ComparisonRequest.model_validate_json(read_request(store, claim))
    baseline = _rows(context, request.baseline, request.baseline_explainer)
    candidate = _rows(context, request.candidate, request.candidate_explainer)
    retrained = [_rows(context, id_, request.baseline_explainer) for id_ in request.retrained]
    context.control.raise_if_stopped()
    with store.database.reading() as session:
        gnn_ids = [
            evaluations.get(session, id_, claim.tenant).gnn_id
            for id_ in (request.baseline, request.candidate)
        ]
    result = comparison_result(
        request, baseline, candidate, retrained, same_gnn=gnn_ids[0] == gnn_ids[1]
    )
    return HandlerOutput(
        result={"kind": "comparison", "comparison": claim.subject_id},
        record=lambda session: comparisons.finish(session, claim, result),
    )


def comparison_result(
    request: ComparisonRequest,
    baseline: Sequence[EvaluationRow],
    candidate: Sequence[EvaluationRow],
    retrained: Sequence[Sequence[EvaluationRow]],
    *,
    same_gnn: bool,
) -> ComparisonResult:
    """The instances are those that all evaluations have, in their order in the test set."""
    positions = [{row.graph: row for row in rows} for rows in (baseline, candidate, *retrained)]
    shared = sorted(set.intersection(*(set(rows) for rows in positions)))
    first, second, *others = (
        [answer_of(rows[position]) for position in shared] for rows in positions
    )
    figures = compare(
        first,
        second,
        retrained=others if request.noise == "retraining" else (),
        same_gnn=same_gnn,
        alpha=request.alpha,
        seed=request.seed,
    )
    return ComparisonResult(
        noise=request.noise,
        baseline_explainer=request.baseline_explainer,
        candidate_explainer=request.candidate_explainer,
        retrained=request.retrained,
        trainings=1 + len(retrained) if request.noise == "retraining" else 1,
        alpha=request.alpha,
        instances=len(shared),
        agreement=None if same_gnn else rounded(agreement(first, second)),
        figures=[_moved(figure) for figure in figures],
        moved=[figure.name for figure in figures if figure.moved],
        worse=[figure.name for figure in figures if figure.worse],
        warnings=_warnings(request, len(shared), same_gnn=same_gnn),
    )


def _rows(context: HandlerContext, id_: str, explainer: str) -> list[EvaluationRow]:
    store, tenant = context.store, context.claim.tenant
    with store.database.reading() as session:
        evaluation = evaluations.get(session, id_, tenant)
    parts = stored_rows(store, evaluation)
    return [row for part in parts for row in part.rows if row.explainer == explainer]


def _warnings(request: ComparisonRequest, instances: int, *, same_gnn: bool) -> list[str]:
    warnings = []
    if instances < _FEW_INSTANCES:
        warnings.append(f"{instances} instances are few; small changes cannot be found")
    if request.noise == "instances" and not same_gnn:
        warnings.append(
            "the noise of retraining is not known: another training of the same GNN on the same "
            "data may count as moved. Give `retrained` evaluations"
        )
    if request.noise == "retraining" and len(request.retrained) + 1 < _FEW_TRAININGS:
        warnings.append(
            f"{len(request.retrained) + 1} trainings estimate their spread roughly; only large "
            f"changes can be found. {_FEW_TRAININGS} or more find smaller ones"
        )
    return warnings


def _moved(figure: MovedFigure) -> Moved:
    return Moved(
        figure=figure.name,
        baseline=rounded(figure.baseline),
        candidate=rounded(figure.candidate),
        difference=rounded(figure.difference),
        expected=rounded(figure.expected),
        low=rounded(figure.low),
        high=rounded(figure.high),
        effect=None if figure.effect is None else rounded(figure.effect),
        deviation=None if figure.deviation is None else rounded(figure.deviation),
        p_value=rounded(figure.p_value),
        corrected_p_value=rounded(figure.corrected_p_value),
        moved=figure.moved,
        worse=figure.worse,
        instances=figure.instances,
    )
