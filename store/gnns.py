"""GNNs that were registered."""

from __future__ import annotations

import hashlib

from sqlalchemy import select
from sqlalchemy.orm import Session

from store import denoisers
from store.claims import Claim, held
from store.errors import Conflict, GnnNotReady, NotFound
from store.gnn_spec import GnnSpecDocument
from store.identifiers import new_id
from store.job_states import GnnState, JobKind, JobState
from store.paging import Page, page_of
from store.results import ProbeReport
from store.submission import submit
from store.tables import Gnn, Job


def create(
    session: Session,
    *,
    name: str,
    spec: GnnSpecDocument,
    weights_digest: str,
    tenant: str = "default",
) -> tuple[Gnn, Job]:
    """A GNN that is being probed, and the job that does it."""
    gnn_id = new_id("gnn")
    job = submit(session, kind=JobKind.PROBE, subject_id=gnn_id, gnn_id=gnn_id, tenant=tenant)
    gnn = Gnn(
        id=gnn_id,
        tenant_id=tenant,
        name=name,
        sha256=content_hash(spec, weights_digest),
        spec=spec.model_dump(mode="json"),
        weights_digest=weights_digest,
        state=GnnState.PROBING,
        report=None,
        job_id=job.id,
        created_at=job.created_at,
    )
    session.add(gnn)
    session.flush()
    return gnn, job


def content_hash(spec: GnnSpecDocument, weights_digest: str) -> str:
    """What the GNN computes, whatever it or its classes are called; its layers say the rest."""
    architecture = spec.model_dump_json(exclude={"class_names", "task", "head"})
    return hashlib.sha256(f"{architecture}\n{weights_digest}".encode()).hexdigest()


def get(session: Session, gnn_id: str, tenant: str = "default") -> Gnn:
    return _found(session, gnn_id, tenant)


def require_ready(session: Session, gnn_id: str, tenant: str = "default") -> Gnn:
    """The GNN, kept from deletion until the transaction ends."""
    gnn = _found(session, gnn_id, tenant, keep=True)
    if gnn.state is not GnnState.READY:
        raise GnnNotReady(gnn.id, gnn.state)
    return gnn


def classifies_nodes(gnn: Gnn) -> bool:
    return bool(gnn.spec.get("task") == "node")


def page(
    session: Session, cursor: str | None = None, limit: int = 50, tenant: str = "default"
) -> Page[Gnn]:
    return page_of(session, select(Gnn).where(Gnn.tenant_id == tenant), Gnn, cursor, limit)


def delete(session: Session, gnn_id: str, tenant: str = "default") -> None:
    """Forgets the GNN and its denoisers; explanations stay as records."""
    gnn = session.scalar(
        select(Gnn).where(Gnn.id == gnn_id, Gnn.tenant_id == tenant).with_for_update()
    )
    if gnn is None:
        raise NotFound("gnn", gnn_id)
    user = session.scalar(
        select(Job.id)
        .where(Job.gnn_id == gnn.id, Job.state.in_((JobState.QUEUED, JobState.RUNNING)))
        .limit(1)
    )
    if user is not None:
        raise Conflict(f"GNN {gnn.id} is in use by job {user}; cancel it or wait for its end")
    denoisers.let_go_of_gnn(session, gnn)
    session.delete(gnn)
    session.flush()


def finish(session: Session, claim: Claim, report: ProbeReport) -> None:
    """Stores what the probe found; call in the transaction that ends the job."""
    job = held(session, claim)
    gnn = session.get(Gnn, job.gnn_id, populate_existing=True)
    assert gnn is not None, "a GNN with a running job cannot be deleted"
    gnn.report = report.model_dump(mode="json")
    gnn.state = GnnState.READY if report.passed else GnnState.REJECTED
    session.flush()


def _found(session: Session, gnn_id: str, tenant: str, *, keep: bool = False) -> Gnn:
    query = select(Gnn).where(Gnn.id == gnn_id, Gnn.tenant_id == tenant)
    if keep:
        query = query.with_for_update(read=True, key_share=True)
    gnn = session.scalar(query.execution_options(populate_existing=True))
    if gnn is None:
        raise NotFound("gnn", gnn_id)
    return gnn
