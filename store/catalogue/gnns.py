"""Registered GNNs: numbered versions of a name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from d4explain.contracts.errors import quoted
from d4explain.contracts.gnn_spec import GnnSpecDocument
from d4explain.contracts.job_states import GnnState, JobKind, JobState
from d4explain.contracts.probe_reports import ProbeReport
from store.catalogue import trained_networks
from store.catalogue.data_life import deletions
from store.catalogue.data_life.holds import refuse_if_held
from store.catalogue.gnn_names import Reference, parse_reference
from store.catalogue.name_versions import next_version
from store.database import artifact_ledger
from store.database.identifiers import new_id
from store.database.lists import caller_metadata
from store.database.lists.filters import NO_FILTERS, Filters
from store.database.lists.paging import Page, page_of
from store.database.tables import Gnn, GnnAlias, GnnName, Job
from store.database.tables.base import JsonObject
from store.errors import Conflict, GnnNotReady, NotFound
from store.jobs.claims import Claim, held
from store.jobs.submission import submit

_SHOWN = 5  # jobs or aliases that an error message lists
_NOT_COMPUTED = {"class_names", "feature_schema", "featuriser", "task", "head"}
# Built once: every submission runs this, and building it takes as long as running it.
_BY_ID = (
    select(Gnn)
    .where(Gnn.id == bindparam("id"), Gnn.tenant_id == bindparam("tenant"))
    .execution_options(populate_existing=True)
)
_BY_ID_LOCKED = _BY_ID.with_for_update(read=True, key_share=True)


def create(
    session: Session,
    *,
    name: str,
    spec: GnnSpecDocument,
    weights_digest: str,
    tenant: str,
    samples_digest: str | None = None,
    description: str | None = None,
    tags: Mapping[str, str] | None = None,
    metadata: JsonObject | None = None,
) -> tuple[Gnn, Job]:
    """Creates the next version of this name and the job that probes it."""
    gnn_id = new_id("gnn")
    job = submit(
        session,
        kind=JobKind.PROBE,
        subject_id=gnn_id,
        gnn_id=gnn_id,
        request_digest=samples_digest,
        metadata=metadata,
        tenant=tenant,
    )
    gnn = Gnn(
        id=gnn_id,
        tenant_id=tenant,
        name=name,
        version=next_version(session, GnnName, name, tenant),
        description=description,
        tags=dict(tags or {}),
        sha256=content_hash(spec, weights_digest),
        spec=spec.model_dump(mode="json"),
        weights_digest=weights_digest,
        state=GnnState.PROBING,
        report=None,
        job_id=job.id,
        created_at=job.created_at,
        caller_metadata=metadata or None,
    )
    session.add(gnn)
    session.flush()
    caller_metadata.write(session, [gnn])
    artifact_ledger.refer(session, tenant, weights_digest)
    return gnn, job


def content_hash(spec: GnnSpecDocument, weights_digest: str) -> str:
    """Hashes what the GNN computes, without the names of the GNN, its classes or its features."""
    architecture = spec.model_dump_json(exclude=_NOT_COMPUTED)
    # Bonds define the attributes of added edges, so they affect the output.
    bonds = "" if spec.featuriser is None else ",".join(spec.featuriser.bonds)
    return hashlib.sha256(f"{architecture}{bonds}\n{weights_digest}".encode()).hexdigest()


def get(session: Session, gnn_id: str, tenant: str) -> Gnn:
    return _found(session, gnn_id, tenant)


def find(session: Session, reference: str, tenant: str) -> Gnn:
    """Finds a GNN by `gnn_…`, `name@3`, `name@production` or `name`.

    A name alone means its newest ready version, or its newest version if none is ready.
    """
    return _found(session, _resolve(session, reference, tenant), tenant)


def require_ready(session: Session, reference: str, tenant: str, *, lock: bool = True) -> Gnn:
    """Returns the ready GNN; `lock` prevents its deletion until the transaction ends."""
    gnn = _found(session, _resolve(session, reference, tenant), tenant, keep=lock)
    if gnn.state is not GnnState.READY:
        raise GnnNotReady(gnn.id, gnn.state)
    return gnn


def classifies_nodes(gnn: Gnn) -> bool:
    return bool(gnn.spec.get("task") == "node")


def edge_features(gnn: Gnn) -> int:
    return int(gnn.spec.get("edge_features", 0))


def page(
    session: Session,
    cursor: str | None = None,
    limit: int = 50,
    *,
    tenant: str,
    name: str | None = None,
    state: GnnState | None = None,
    filters: Filters = NO_FILTERS,
) -> Page[Gnn]:
    query = filters.applied_to(select(Gnn).where(Gnn.tenant_id == tenant), Gnn, tenant)
    if state is not None:
        query = query.where(Gnn.state == state)
    if name is not None:
        query = query.where(Gnn.name == name)
    return page_of(session, query, Gnn, cursor, limit)


def delete(session: Session, gnn_id: str, tenant: str) -> None:
    """Deletes the GNN and what was trained for it; explanations are kept as records."""
    gnn = session.scalar(
        select(Gnn).where(Gnn.id == gnn_id, Gnn.tenant_id == tenant).with_for_update()
    )
    if gnn is None:
        raise NotFound("gnn", gnn_id)
    refuse_if_held(session, gnn.id, tenant=tenant)
    _refuse_if_used(session, gnn)
    trained_networks.release_gnn(session, gnn)
    forgotten = deletions.forget_inputs(session, gnn.id, tenant)
    deletions.note(session, "gnn", gnn.id, tenant, [gnn.weights_digest, *forgotten])
    session.delete(gnn)
    session.flush()


def finish(session: Session, claim: Claim, report: ProbeReport) -> None:
    """Stores the probe report; call it in the transaction that ends the job."""
    job = held(session, claim)
    gnn = session.get(Gnn, job.gnn_id, populate_existing=True)
    assert gnn is not None, "a GNN with a running job cannot be deleted"
    gnn.report = report.model_dump(mode="json")
    gnn.state = GnnState.READY if report.passed else GnnState.REJECTED
    session.flush()


def _resolve_name(session: Session, reference: Reference, tenant: str) -> str:
    """Resolves a name, with a version, an alias or neither, to an id."""
    mine = select(Gnn.id).where(Gnn.tenant_id == tenant, Gnn.name == reference.name)
    if reference.version is not None:
        query = mine.where(Gnn.version == reference.version)
    elif reference.alias is not None:
        query = select(GnnAlias.gnn_id).where(
            GnnAlias.tenant_id == tenant,
            GnnAlias.name == reference.name,
            GnnAlias.alias == reference.alias,
        )
    else:
        query = mine.order_by((Gnn.state == GnnState.READY).desc(), Gnn.version.desc())
    found = session.scalar(query.limit(1))
    if found is None:
        raise _unknown_reference(session, reference, tenant)
    return found


def _unknown_reference(session: Session, reference: Reference, tenant: str) -> NotFound:
    name = reference.name or ""
    versions = session.scalars(
        select(Gnn.version)
        .where(Gnn.tenant_id == tenant, Gnn.name == name)
        .order_by(Gnn.version.desc())
        .limit(_SHOWN)
    ).all()
    message = f"there is no gnn called {quoted(name)}"
    if versions and reference.version is not None:
        listed = ", ".join(str(version) for version in versions)
        message = f"the gnn {quoted(name)} has no version {reference.version}; its newest: {listed}"
    elif versions:
        aliases = session.scalars(
            select(GnnAlias.alias)
            .where(GnnAlias.tenant_id == tenant, GnnAlias.name == name)
            .order_by(GnnAlias.alias)
            .limit(_SHOWN)
        ).all()
        listed = f"it has {', '.join(aliases)}" if aliases else "it has none"
        message = f"the gnn {quoted(name)} has no alias {quoted(reference.alias or '')}; {listed}"
    return NotFound("gnn", name, message)


def _refuse_if_used(session: Session, gnn: Gnn) -> None:
    aliases = session.scalars(
        select(GnnAlias.alias)
        .where(GnnAlias.gnn_id == gnn.id)
        .order_by(GnnAlias.alias)
        .limit(_SHOWN)
    ).all()
    if aliases:
        raise Conflict(
            f"GNN {gnn.id} has the alias {', '.join(aliases)}; move it to another version or "
            "remove it first"
        )
    jobs = session.scalars(
        select(Job)
        .where(Job.gnn_id == gnn.id, Job.state.in_((JobState.QUEUED, JobState.RUNNING)))
        .order_by(Job.created_at, Job.id)
        .limit(_SHOWN)
    ).all()
    if jobs:
        listed = ", ".join(_describe(job) for job in jobs)
        raise Conflict(f"GNN {gnn.id} is in use by {listed}; cancel it or wait until it ends")


def _describe(job: Job) -> str:
    training = f" of denoiser {job.denoiser_id}" if job.kind is JobKind.TRAIN else ""
    return f"{job.kind} job {job.id}{training} ({job.state})"


def _resolve(session: Session, reference: str, tenant: str) -> str:
    """Resolves a reference to an id without checking that the GNN exists."""
    parsed = parse_reference(reference)
    if parsed is None:
        raise NotFound("gnn", reference)
    return parsed.id or _resolve_name(session, parsed, tenant)


def _found(session: Session, gnn_id: str, tenant: str, *, keep: bool = False) -> Gnn:
    gnn = session.scalar(_BY_ID_LOCKED if keep else _BY_ID, {"id": gnn_id, "tenant": tenant})
    if gnn is None:
        raise NotFound("gnn", gnn_id)
    return gnn
