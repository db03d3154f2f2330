"""Evaluations: shards explain instances, and the evaluation's own job computes the figures."""

from __future__ import annotations

from sqlalchemy.orm import Session

from d4explain.contracts.counterfactual_results import Judge
from d4explain.contracts.evaluations.requests import EvaluationRequest
from d4explain.contracts.evaluations.rows import EvaluationRow, ShardRows
from store.artifacts import graph_sets
from store.catalogue.evaluations import evaluations
from store.database.tables import Evaluation
from store.store import Store
from worker.evaluating.figure_documents import evaluation_result
from worker.evaluating.row_answers import parquet_of
from worker.evaluating.shard_rows import open_shard, shard_rows
from worker.execution.handler_api import HandlerContext, HandlerOutput
from worker.handlers.explainers import SAMPLERS, explainer_of
from worker.loading.graph_conversion import unpack_graphs
from worker.loading.job_inputs import read_inputs, read_request
from worker.reporting.receipts import receipt


class IncompleteEvaluationError(Exception):
    """Rows are missing or doubled; only a fault of the program can cause it."""


def handle_evaluation_shard(context: HandlerContext) -> HandlerOutput:
    store, claim = context.store, context.claim
    request = _request(context)
    with store.database.reading() as session:
        part = evaluations.shard_of(session, claim)
    inputs = read_inputs(store, claim, _judge_ids(request))
    chosen = slice(part.first, part.first + part.count)
    data = store.artifacts.of(claim.tenant).get(request.graphs_sha256)
    documents = graph_sets.unpack(data, chosen)
    context.control.progress("explaining", 0, part.count)
    gnn = context.library.gnn(inputs.gnn)
    shard = open_shard(
        context.library,
        request,
        part.first,
        documents,
        inputs,
        prepare=lambda asked: (
            SAMPLERS[asked.explainer],
            explainer_of(context, asked, inputs, gnn),
        ),
    )
    rows = shard_rows(
        shard,
        on_progress=lambda done: context.control.progress("explaining", done, part.count),
        should_stop=context.control.should_stop,
    )
    context.control.raise_if_stopped()
    digest = store.artifacts.of(claim.tenant).put(rows.model_dump_json().encode())

    def record(session: Session) -> None:
        evaluations.finish_shard(session, claim, rows_digest=digest)

    result = {"kind": "evaluation_shard", "evaluation": claim.subject_id, "rows": len(rows.rows)}
    return HandlerOutput(result=result, record=record)


def handle_evaluation(context: HandlerContext) -> HandlerOutput:
    store, claim, library = context.store, context.claim, context.library
    request = _request(context)
    inputs = read_inputs(store, claim, _judge_ids(request))
    with store.database.reading() as session:
        evaluation = evaluations.get(session, claim.subject_id or "", claim.tenant)
    parts = stored_rows(store, evaluation)
    rows = [row for part in parts for row in part.rows]
    _require_all(rows, request)
    artifacts = store.artifacts.of(claim.tenant)
    graphs = unpack_graphs(artifacts.get(request.graphs_sha256)).graphs
    total = len(request.explainers)
    context.control.progress("computing figures", 0, total)
    result = evaluation_result(
        library,
        request,
        inputs,
        graphs,
        rows,
        judges=_judges(parts),
        unjudged_reason=parts[0].unjudged_reason,
        receipt=receipt(
            context,
            inputs,
            library.gnn(inputs.gnn),
            seed=request.seed,
            config=request.model_dump(mode="json", exclude={"positions", "kind"}),
            work={
                "gnn_evaluations": sum(row.gnn_evaluations for row in rows),
                "gnn_gradients": sum(row.gnn_gradients for row in rows),
                "shards": len(parts),
            },
        ),
        warnings=[warning for part in parts for warning in part.warnings],
        on_progress=lambda done: context.control.progress("computing figures", done, total),
    )
    context.control.raise_if_stopped()
    result_digest = artifacts.put(result.model_dump_json().encode())
    parquet_digest = artifacts.put(parquet_of(rows))
    summary = {
        "instances": result.instances,
        "accuracy": None if result.accuracy is None else result.accuracy.value,
        "explainers": {
            one.explainer: {
                "validity": one.validity.value,
                "cf_acc_auc": one.cf_acc_auc.value,
                "edits": None if one.edits is None else one.edits.value,
                "brittle_share": None if one.brittle_share is None else one.brittle_share.value,
            }
            for one in result.explainers
        },
    }

    def record(session: Session) -> None:
        evaluations.finish(
            session,
            claim,
            result_digest=result_digest,
            parquet_digest=parquet_digest,
            summary=summary,
        )

    return HandlerOutput(
        result={"kind": "evaluation", "evaluation": claim.subject_id}, record=record
    )


def stored_rows(store: Store, evaluation: Evaluation) -> list[ShardRows]:
    """What the shards committed, in the order of the instances."""
    artifacts = store.artifacts.of(evaluation.tenant_id)
    with store.database.reading() as session:
        shards = evaluations.shards(session, evaluation.id, evaluation.tenant_id)
    return [
        ShardRows.model_validate_json(artifacts.get(shard.rows_digest or "")) for shard in shards
    ]


def _request(context: HandlerContext) -> EvaluationRequest:
    return EvaluationRequest.model_validate_json(read_request(context.store, context.claim))


def _judge_ids(request: EvaluationRequest) -> list[str]:
    return [] if request.judges == "none" else request.judges


def _judges(parts: list[ShardRows]) -> list[Judge]:
    """The same judges voted in every shard, or the votes cannot be put together."""
    if any(part.judges != parts[0].judges for part in parts):
        raise IncompleteEvaluationError("the shards were judged by different judges")
    return parts[0].judges


def _require_all(rows: list[EvaluationRow], request: EvaluationRequest) -> None:
    expected = [
        (instance, name)
        for instance in range(len(request.positions))
        for name in request.explainers
    ]
    if [(row.instance, row.explainer) for row in rows] != expected:
        raise IncompleteEvaluationError("the rows are not one per instance and explainer, in order")
