"""The rows a job is about, read together."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select

from store.catalogue import datasets, denoisers, gnns
from store.database.tables import Dataset, Denoiser, Gnn
from worker.execution.handler_api import Work


@dataclass(frozen=True)
class JobInputs:
    gnn: Gnn
    dataset: Dataset
    denoiser: Denoiser


def gnn_of(work: Work) -> Gnn:
    with work.store.database.reading() as session:
        return gnns.get(session, work.claim.gnn_id or "", work.claim.tenant)


def inputs_of(work: Work) -> JobInputs:
    claim = work.claim
    ids = (claim.gnn_id or "", claim.dataset_id or "", claim.denoiser_id or "")
    with work.store.database.reading() as session:
        rows = session.execute(
            select(Gnn, Dataset, Denoiser)
            .join(Dataset, Dataset.tenant_id == Gnn.tenant_id)
            .join(Denoiser, Denoiser.tenant_id == Gnn.tenant_id)
            .where(
                Gnn.tenant_id == claim.tenant,
                Gnn.id == ids[0],
                Dataset.id == ids[1],
                Denoiser.id == ids[2],
            )
        ).one_or_none()
        if rows is not None:
            return JobInputs(*rows)
        return JobInputs(  # one of them is gone, and this says which
            gnn=gnns.get(session, ids[0], claim.tenant),
            dataset=datasets.get(session, ids[1], claim.tenant),
            denoiser=denoisers.get(session, ids[2], claim.tenant),
        )


def request_bytes(work: Work) -> bytes:
    return work.store.artifacts.get(work.claim.request_digest or "")
