"""Checks a posted comparison and writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from d4explain.contracts.evaluations.requests import (
    ComparisonRequest,
    EvaluationRequest,
    Noise,
)
from d4explain.contracts.requests import Explainer
from service.evaluation_models import ComparisonIn
from service.http.faults import reject, shown
from service.http.idempotency import Created, Submission, already_created, create_once
from service.http.json_bodies import parse_model
from service.submission.request_webhooks import checked_webhook
from service.submission.resource_ids import checked_id, report_at
from store import jobs
from store.catalogue import gnns
from store.catalogue.evaluations import comparisons, evaluations
from store.database.tables import Evaluation
from store.errors import Conflict, NotFound
from store.store import Store
from store.webhooks import endpoints

_MIN_RETRAINED = 2  # with the baseline, three trainings have a spread with two degrees of freedom


@dataclass(frozen=True)
class _Evaluated:
    row: Evaluation
    request: EvaluationRequest
    gnn_sha256: str | None  # None if the GNN was deleted
    spec: object


def create(store: Store, body: bytes, submission: Submission) -> Created:
    """Writes the comparison, or returns the one that the same key created."""
    created = already_created(store, submission)
    if created is not None:
        return created
    posted = parse_model(body, ComparisonIn)
    webhook = checked_webhook(posted.webhook, store.settings)
    request = _request(store, posted, submission.tenant)
    digest = store.artifacts.of(submission.tenant).put(request.model_dump_json().encode())

    def create_row(session: Session) -> str:
        comparison = comparisons.create(
            session,
            baseline=evaluations.get(session, posted.baseline, submission.tenant),
            candidate=evaluations.get(session, posted.candidate, submission.tenant),
            request_digest=digest,
            seed=posted.seed,
            metadata=posted.metadata,
        )
        if webhook is not None:
            job = jobs.get(session, comparison.job_id, submission.tenant)
            endpoints.add_all(session, [(webhook, job)])
        return comparison.id

    return create_once(store, submission, create_row)


def _request(store: Store, posted: ComparisonIn, tenant: str) -> ComparisonRequest:
    with store.database.reading() as session:

        def read(id_: str, at: str) -> _Evaluated:
            with report_at(at):
                row = evaluations.get(session, checked_id("evaluation", id_), tenant)
            if row.result_digest is None:
                raise Conflict(f"evaluation {row.id} has no result; wait until it has succeeded")
            return _evaluated(store, session, row)

        baseline = read(posted.baseline, "/baseline")
        candidate = read(posted.candidate, "/candidate")
        retrained = [read(id_, f"/retrained/{place}") for place, id_ in enumerate(posted.retrained)]
    _check_same_set(baseline, candidate, "/candidate")
    explainer = _explainer(posted, baseline, candidate)
    other = posted.candidate_explainer or explainer
    _check_explainer(baseline, explainer, "/explainer", posted.baseline)
    _check_explainer(candidate, other, "/candidate_explainer", posted.candidate)
    if posted.baseline == posted.candidate and explainer == other:
        reject(
            "/candidate",
            "is the baseline; give another evaluation, or `candidate_explainer` to compare two "
            "explainers of this one",
        )
    noise = _noise(posted, baseline, candidate)
    for place, one in enumerate(retrained):
        at = f"/retrained/{place}"
        _check_same_set(baseline, one, at)
        _check_explainer(one, explainer, at, posted.retrained[place])
        _check_retrained(baseline, one, [baseline, *retrained[:place]], at)
    return ComparisonRequest(
        baseline=posted.baseline,
        candidate=posted.candidate,
        baseline_explainer=explainer,
        candidate_explainer=other,
        retrained=posted.retrained,
        noise=noise,
        alpha=posted.alpha,
        seed=posted.seed,
    )


def _evaluated(store: Store, session: Session, row: Evaluation) -> _Evaluated:
    data = store.artifacts.of(row.tenant_id).get(row.request_digest)
    request = EvaluationRequest.model_validate_json(data)
    try:
        gnn = gnns.get(session, row.gnn_id, row.tenant_id)
    except NotFound:
        return _Evaluated(row, request, None, None)
    return _Evaluated(row, request, gnn.sha256, gnn.spec.get("layers"))


def _check_same_set(baseline: _Evaluated, other: _Evaluated, at: str) -> None:
    mine, theirs = baseline.request.test, other.request.test
    if (mine.sha256, mine.part, mine.held_out_share) != (
        theirs.sha256,
        theirs.part,
        theirs.held_out_share,
    ):
        reject(
            at,
            f"{other.row.id} is of another test set than {baseline.row.id}; compared evaluations "
            "need the same one",
        )
    if not set(baseline.request.positions) & set(other.request.positions):
        reject(at, f"{other.row.id} and {baseline.row.id} have no instance in common")


def _explainer(posted: ComparisonIn, baseline: _Evaluated, candidate: _Evaluated) -> Explainer:
    """The only explainer of both, unless the request names one."""
    if posted.explainer is not None:
        return posted.explainer
    shared = [name for name in baseline.request.explainers if name in candidate.request.explainers]
    if len(shared) != 1:
        have = ", ".join(shared) or "none"
        reject("/explainer", f"is missing; both evaluations have: {have}. Name one")
    return shared[0]


def _check_explainer(evaluated: _Evaluated, explainer: Explainer, at: str, id_: str) -> None:
    if explainer not in evaluated.request.explainers:
        names = ", ".join(evaluated.request.explainers)
        reject(at, f"is {shown(explainer)}; {id_} has {names}")


def _noise(posted: ComparisonIn, baseline: _Evaluated, candidate: _Evaluated) -> Noise:
    same_gnn = baseline.row.gnn_id == candidate.row.gnn_id
    noise: Noise = posted.noise or ("instances" if same_gnn else "retraining")
    if noise == "retraining" and len(posted.retrained) < _MIN_RETRAINED:
        reject(
            "/retrained",
            f"has {len(posted.retrained)} evaluations; the noise of retraining needs at least "
            f"{_MIN_RETRAINED} of other trainings of the baseline's GNN. With `noise` "
            "'instances', another training of the same GNN may count as moved",
        )
    if noise == "instances" and posted.retrained:
        reject("/retrained", "is for `noise` 'retraining'")
    if noise == "retraining" and same_gnn:
        reject(
            "/noise", "is 'retraining'; both evaluations are of one GNN, which was not retrained"
        )
    return noise


def _check_retrained(
    baseline: _Evaluated, one: _Evaluated, others: Sequence[_Evaluated], at: str
) -> None:
    if one.gnn_sha256 is None or baseline.gnn_sha256 is None:
        gone = one if one.gnn_sha256 is None else baseline
        reject(at, f"the GNN of {gone.row.id} was deleted, so it is not known how it was built")
    if any(one.gnn_sha256 == other.gnn_sha256 for other in others):
        reject(at, f"{one.row.id} is of a GNN that is already there; give another training")
    if one.spec != baseline.spec:
        reject(
            at,
            f"{one.row.id} is of a GNN with other layers than {baseline.row.id}; its spread is not "
            "that of retraining",
        )
