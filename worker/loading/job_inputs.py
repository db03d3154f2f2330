"""Reads the request and the rows that a job refers to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import and_, select
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import TrainingState
from d4explain.contracts.requests import CounterfactualRequest
from store import jobs
from store.catalogue import datasets, denoisers, gnns
from store.database.tables import Dataset, Denoiser, Gnn, WitnessSet
from store.jobs import Claim
from store.store import Store


@dataclass(frozen=True)
class JobInputs:
    gnn: Gnn
    dataset: Dataset
    denoiser: Denoiser | None  # None for the explainer `search`
    witness_set: WitnessSet | None = None  # None if none was requested
    witness_failure: str | None = None  # why the witness set is not ready
    judges: tuple[Gnn, ...] = ()  # those that the request names and that still exist

    @property
    def required_denoiser(self) -> Denoiser:
        """The denoiser of a job that cannot run without one."""
        assert self.denoiser is not None
        return self.denoiser


def named_judges(request: CounterfactualRequest) -> list[str]:
    return [] if request.judges == "none" else request.judges


def _read_judges(session: Session, claim: Claim, ids: Sequence[str]) -> tuple[Gnn, ...]:
    """The GNNs with these ids; those that were deleted are left out."""
    if not ids:
        return ()
    mine = select(Gnn).where(Gnn.tenant_id == claim.tenant, Gnn.id.in_(ids))
    rows = {row.id: row for row in session.scalars(mine)}
    return tuple(rows[id_] for id_ in ids if id_ in rows)


def read_gnn(store: Store, claim: Claim) -> Gnn:
    with store.database.reading() as session:
        return gnns.get(session, claim.gnn_id or "", claim.tenant)


def read_inputs(store: Store, claim: Claim, judge_ids: Sequence[str] = ()) -> JobInputs:
    """Reads GNN, reference set, denoiser and witness set in one query, and GNNs that judge."""
    gnn_id, dataset_id = claim.gnn_id or "", claim.dataset_id or ""
    denoiser_id = claim.denoiser_id
    is_named = and_(Denoiser.tenant_id == Gnn.tenant_id, Denoiser.id == denoiser_id)
    judges = and_(WitnessSet.tenant_id == Gnn.tenant_id, WitnessSet.id == claim.witness_set_id)
    with store.database.reading() as session:
        rows = session.execute(
            select(Gnn, Dataset, Denoiser, WitnessSet)
            .join(Dataset, Dataset.tenant_id == Gnn.tenant_id)
            .outerjoin(Denoiser, is_named)
            .outerjoin(WitnessSet, judges)
            .where(Gnn.tenant_id == claim.tenant, Gnn.id == gnn_id, Dataset.id == dataset_id)
        ).one_or_none()
        if rows is not None and (denoiser_id is None or rows.Denoiser is not None):
            return JobInputs(
                *rows,
                _witness_failure(session, rows.WitnessSet),
                _read_judges(session, claim, judge_ids),
            )
        # At least one row is missing; these calls raise an error that names it.
        return JobInputs(
            gnn=gnns.get(session, gnn_id, claim.tenant),
            dataset=datasets.get(session, dataset_id, claim.tenant),
            denoiser=denoisers.get(session, denoiser_id or "", claim.tenant),
        )


def _witness_failure(session: Session, witnesses: WitnessSet | None) -> str | None:
    if witnesses is None or witnesses.state is TrainingState.READY:
        return None
    job = jobs.get(session, witnesses.job_id, witnesses.tenant_id)
    if not job.state.is_terminal:  # a later request has started it again
        return f"they are being trained by job {job.id}"
    return (job.error or {}).get("message") or f"job {job.id} was {job.state}"


def read_request(store: Store, claim: Claim) -> bytes:
    return store.artifacts.of(claim.tenant).get(claim.request_digest or "")
