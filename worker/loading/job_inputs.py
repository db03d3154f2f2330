"""Reads the request and the rows that a job refers to."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import and_, select

from store.catalogue import datasets, denoisers, gnns
from store.database.tables import Dataset, Denoiser, Gnn
from store.jobs import Claim
from store.store import Store


@dataclass(frozen=True)
class JobInputs:
    gnn: Gnn
    dataset: Dataset
    denoiser: Denoiser | None  # None for the explainer `search`

    @property
    def required_denoiser(self) -> Denoiser:
        """The denoiser of a job that cannot run without one."""
        assert self.denoiser is not None
        return self.denoiser


def read_gnn(store: Store, claim: Claim) -> Gnn:
    with store.database.reading() as session:
        return gnns.get(session, claim.gnn_id or "", claim.tenant)


def read_inputs(store: Store, claim: Claim) -> JobInputs:
    """Reads GNN, reference set and denoiser in one query."""
    gnn_id, dataset_id = claim.gnn_id or "", claim.dataset_id or ""
    denoiser_id = claim.denoiser_id
    is_named = and_(Denoiser.tenant_id == Gnn.tenant_id, Denoiser.id == denoiser_id)
    with store.database.reading() as session:
        rows = session.execute(
            select(Gnn, Dataset, Denoiser)
            .join(Dataset, Dataset.tenant_id == Gnn.tenant_id)
            .outerjoin(Denoiser, is_named)
            .where(Gnn.tenant_id == claim.tenant, Gnn.id == gnn_id, Dataset.id == dataset_id)
        ).one_or_none()
        if rows is not None and (denoiser_id is None or rows.Denoiser is not None):
            return JobInputs(*rows)
        # At least one row is missing; these calls raise an error that names it.
        return JobInputs(
            gnn=gnns.get(session, gnn_id, claim.tenant),
            dataset=datasets.get(session, dataset_id, claim.tenant),
            denoiser=denoisers.get(session, denoiser_id or "", claim.tenant),
        )


def read_request(store: Store, claim: Claim) -> bytes:
    return store.artifacts.get(claim.request_digest or "")
