"""Replays: repetitions of the work that gave an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobKind, Stage
from d4explain.contracts.receipts.receipt import Receipt
from d4explain.contracts.receipts.replay_reports import ReplayReport
from store.artifacts.artifact_store import ArtifactStore
from store.catalogue import explanations
from store.database.identifiers import new_id
from store.database.lists.paging import Page, page_of
from store.database.tables import Dataset, Denoiser, Explanation, Gnn, Job, Replay, WitnessSet
from store.errors import Conflict, Gone, NotFound
from store.jobs import Claim
from store.jobs.claims import held
from store.jobs.submission import get as get_job
from store.jobs.submission import submit


@dataclass(frozen=True)
class RecordedAnswer:
    """One stored answer, and the job that computed it."""

    explanation: Explanation
    stage: Stage
    digest: str
    job: Job


def recorded_answer(
    session: Session, explanation_id: str, tenant: str, stage: Stage | None
) -> RecordedAnswer:
    """The answer of this stage, or the newest one; raises Conflict if it does not exist."""
    explanation = explanations.get(session, explanation_id, tenant)
    if stage is None:
        is_final = explanation.result_digest is not None or explanation.provisional_digest is None
        stage = Stage.FINAL if is_final else Stage.PROVISIONAL
    digest, job_id = (
        (explanation.result_digest, explanation.job_id)
        if stage is Stage.FINAL
        else (explanation.provisional_digest, explanation.provisional_job_id)
    )
    if digest is None or job_id is None:
        raise Conflict(f"the {stage} answer of {explanation.id} does not exist")
    return RecordedAnswer(explanation, stage, digest, get_job(session, job_id, tenant))


def require_inputs(
    session: Session, artifacts: ArtifactStore, answer: RecordedAnswer, receipt: Receipt
) -> None:
    """Raises Gone if something that the recorded work used was deleted or replaced since."""
    if receipt.gnn_form == "black_box":
        raise Conflict(
            f"{answer.explanation.id} explains a GNN behind a URL, which may answer differently "
            "now; replays exclude it"
        )
    job = answer.job
    needed = [answer.digest, receipt.request_sha256]
    gnn = _row(session, Gnn, "GNN", job.gnn_id, job.tenant_id)
    dataset = _row(session, Dataset, "reference set", job.dataset_id, job.tenant_id)
    _require_same("GNN", gnn.id, gnn.sha256, receipt.gnn_sha256)
    _require_same("reference set", dataset.id, dataset.sha256, receipt.dataset_sha256)
    needed += [gnn.weights_digest, dataset.graphs_digest]
    if receipt.denoiser_sha256 is not None:
        denoiser = _row(session, Denoiser, "denoiser", job.denoiser_id, job.tenant_id)
        _require_same("denoiser", denoiser.id, denoiser.weights_sha256, receipt.denoiser_sha256)
        needed.append(denoiser.weights_digest or "")
    if receipt.witnesses_sha256 is not None:
        used = _row(session, WitnessSet, "witness set", job.witness_set_id, job.tenant_id)
        _require_same("witness set", used.id, used.weights_digest, receipt.witnesses_sha256)
        needed.append(receipt.witnesses_sha256)
    for id_, sha256 in receipt.judges.items():
        judge = _row(session, Gnn, "judge", id_, job.tenant_id)
        _require_same("judge", id_, judge.sha256, sha256)
        needed.append(judge.weights_digest)
    for digest in needed:
        if not artifacts.of(job.tenant_id).exists(digest):
            raise Gone(f"the artifact {digest} of {answer.explanation.id} was deleted")


def create(
    session: Session, artifacts: ArtifactStore, answer: RecordedAnswer, receipt: Receipt
) -> Replay:
    """Creates the replay and its job; raises Gone if an input was deleted."""
    require_inputs(session, artifacts, answer, receipt)
    replay_id, recorded = new_id("rpl"), answer.job
    job = submit(
        session,
        kind=JobKind.REPLAY,
        subject_id=replay_id,
        gnn_id=recorded.gnn_id,
        dataset_id=recorded.dataset_id,
        denoiser_id=recorded.denoiser_id,
        witness_set_id=recorded.witness_set_id,
        request_digest=receipt.request_sha256,
        estimated_seconds=recorded.estimated_seconds,
        seed=recorded.seed,
        metadata=answer.explanation.caller_metadata,
        tenant=recorded.tenant_id,
    )
    replay = Replay(
        id=replay_id,
        tenant_id=recorded.tenant_id,
        explanation_id=answer.explanation.id,
        stage=answer.stage,
        answer_digest=answer.digest,
        job_id=job.id,
        report=None,
    )
    session.add(replay)
    session.flush()
    return replay


def get(session: Session, replay_id: str, tenant: str) -> Replay:
    replay = session.scalar(
        select(Replay).where(Replay.id == replay_id, Replay.tenant_id == tenant)
    )
    if replay is None:
        raise NotFound("replay", replay_id)
    return replay


def page(
    session: Session,
    explanation_id: str,
    tenant: str,
    cursor: str | None = None,
    limit: int = 50,
) -> Page[Replay]:
    explanations.get(session, explanation_id, tenant)
    query = select(Replay).where(
        Replay.tenant_id == tenant, Replay.explanation_id == explanation_id
    )
    return page_of(session, query, Replay, cursor, limit)


def finish(session: Session, claim: Claim, report: ReplayReport) -> None:
    """Stores what the replay found; call it in the transaction that ends its job."""
    job = held(session, claim)
    get(session, job.subject_id or "", job.tenant_id).report = report.model_dump(mode="json")
    session.flush()


Row = TypeVar("Row", Gnn, Dataset, Denoiser, WitnessSet)


def _row(session: Session, table: type[Row], kind: str, id_: str | None, tenant: str) -> Row:
    row = session.get(table, id_, populate_existing=True) if id_ else None
    if row is None or row.tenant_id != tenant:
        raise Gone(f"the {kind} {id_} was deleted")
    return row


def _require_same(kind: str, id_: str, present: str | None, recorded: str) -> None:
    if present != recorded:
        raise Gone(f"the {kind} {id_} no longer has the recorded content: it was trained again")
