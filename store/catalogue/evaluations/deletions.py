"""Deletes evaluations and comparisons with their jobs."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from store.catalogue.data_life.deletions import artifacts_of, delete_rows, locked_jobs, note
from store.catalogue.data_life.holds import refuse_if_held
from store.catalogue.evaluations.comparisons import get as get_comparison
from store.catalogue.evaluations.evaluations import get as get_evaluation
from store.database.tables import Comparison, Evaluation, EvaluationShard, Job
from store.errors import Conflict, NotFound


def delete_evaluation(session: Session, evaluation_id: str, tenant: str) -> None:
    """Deletes an evaluation with its rows and jobs; comparisons stay as records."""
    get_evaluation(session, evaluation_id, tenant)
    jobs = _ended_jobs(session, "evaluation", evaluation_id, tenant)
    evaluation = _locked(session, Evaluation, evaluation_id, tenant)
    assert isinstance(evaluation, Evaluation)
    rows = session.scalars(
        select(EvaluationShard.rows_digest).where(EvaluationShard.evaluation_id == evaluation_id)
    ).all()
    digests = [
        evaluation.request_digest,
        evaluation.graphs_digest,
        evaluation.result_digest,
        evaluation.parquet_digest,
        *rows,
        *artifacts_of(jobs),
    ]
    session.delete(evaluation)  # the database deletes its shards
    session.flush()
    delete_rows(session, jobs, tenant)
    note(session, "evaluation", evaluation_id, tenant, digests)
    session.flush()


def delete_comparison(session: Session, comparison_id: str, tenant: str) -> None:
    """Deletes a comparison with its job; the evaluations stay."""
    get_comparison(session, comparison_id, tenant)
    jobs = _ended_jobs(session, "comparison", comparison_id, tenant)
    comparison = _locked(session, Comparison, comparison_id, tenant)
    session.delete(comparison)
    session.flush()
    delete_rows(session, jobs, tenant)
    digests = [comparison.request_digest, *artifacts_of(jobs)]
    note(session, "comparison", comparison_id, tenant, digests)
    session.flush()


def _ended_jobs(session: Session, kind: str, id_: str, tenant: str) -> list[Job]:
    """The jobs of a resource, locked; raises Conflict while one is live or if it is on hold."""
    jobs = locked_jobs(session, Job.subject_id == id_, tenant)
    refuse_if_held(session, id_, tenant=tenant)
    live = [job for job in jobs if not job.state.is_terminal]
    if live:
        raise Conflict(
            f"{kind} {id_} has the {live[0].kind} job {live[0].id}, which is {live[0].state}; "
            "cancel it or wait until it ends"
        )
    return jobs


def _locked(
    session: Session, table: type[Evaluation] | type[Comparison], id_: str, tenant: str
) -> Evaluation | Comparison:
    row: Any = session.scalar(
        select(table)
        .where(table.id == id_, table.tenant_id == tenant)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    if row is None:
        raise NotFound("evaluation" if table is Evaluation else "comparison", id_)
    found: Evaluation | Comparison = row
    return found
