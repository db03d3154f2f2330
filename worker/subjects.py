"""The rows a job is about, read together."""

from __future__ import annotations

from dataclasses import dataclass

from store import datasets, denoisers, gnns
from store.tables import Denoiser, Gnn, ReferenceSet
from worker.work import Work


@dataclass(frozen=True)
class Subjects:
    gnn: Gnn
    dataset: ReferenceSet
    denoiser: Denoiser


def gnn_of(work: Work) -> Gnn:
    with work.store.database.reading() as session:
        return gnns.get(session, work.claim.gnn_id or "", work.claim.tenant)


def subjects_of(work: Work) -> Subjects:
    claim = work.claim
    with work.store.database.reading() as session:
        return Subjects(
            gnn=gnns.get(session, claim.gnn_id or "", claim.tenant),
            dataset=datasets.get(session, claim.dataset_id or "", claim.tenant),
            denoiser=denoisers.get(session, claim.denoiser_id or "", claim.tenant),
        )


def request_bytes(work: Work) -> bytes:
    return work.store.artifacts.get(work.claim.request_digest or "")
