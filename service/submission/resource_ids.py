"""Finds the GNNs and datasets that paths and bodies refer to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from sqlalchemy.orm import Session

from service.http.faults import Fault, reject
from service.http.problems import STATUSES, ProblemError
from store.catalogue import datasets, gnns
from store.catalogue.gnn_names import parse_reference
from store.database.tables import Dataset, Gnn
from store.errors import GnnNotReady, NotFound

_ID = re.compile(r"[a-z0-9_]{1,32}")


def checked_id(kind: str, id_: str) -> str:
    """The id; raises NotFound for malformed ids without a database query."""
    if not _ID.fullmatch(id_):
        raise NotFound(kind, id_)
    return id_


def gnn_filter(session: Session, reference: str | None, tenant: str) -> str | None:
    """The GNN id that the query parameter `gnn` names; ids of deleted GNNs are allowed."""
    if reference is None:
        return None
    parsed = parse_reference(reference)
    if parsed is not None and parsed.id is not None:
        return parsed.id
    try:
        return gnns.find(session, reference, tenant).id
    except NotFound as error:
        reject("gnn", str(error), "query")


@contextmanager
def report_at(at: str) -> Iterator[None]:
    """Reports a missing resource, or a GNN that is not ready, at a field of the body."""
    try:
        yield
    except (NotFound, GnnNotReady) as error:
        status, slug = STATUSES[type(error)]
        text = str(error)
        raise ProblemError(
            HTTPStatus(status), slug, text[:1].upper() + text[1:], [Fault(at, text)]
        ) from error


def find_gnn_and_dataset(
    session: Session, reference: str, dataset_reference: str, tenant: str, *, lock: bool = False
) -> tuple[Gnn, Dataset]:
    """A ready GNN and a dataset that fits it; `lock` protects the GNN from deletion."""
    with report_at("/gnn"):
        gnn = gnns.require_ready(session, reference, tenant, lock=lock)
    with report_at("/dataset"):
        dataset = datasets.find(session, dataset_reference, tenant)
    takes_features = gnn.spec["features"]
    if dataset.features != takes_features:
        reject(
            "/dataset",
            f"the graphs of {dataset.id} have {dataset.features:,} features per node; "
            f"the GNN {gnn.id} takes {takes_features:,}",
        )
    if dataset.large and not gnns.classifies_nodes(gnn):
        reject(
            "/dataset",
            f"{dataset.id} is one large graph, which needs a GNN that classifies nodes; {gnn.id} "
            "classifies graphs",
        )
    # A GNN may ignore edge attributes: one dataset can serve several GNNs.
    on_edges = gnns.edge_features(gnn)
    if on_edges and dataset.edge_features != on_edges:
        reject(
            "/dataset",
            f"the edges of {dataset.id} have {dataset.edge_features or 'no'} attributes; "
            f"the GNN {gnn.id} takes {on_edges} per edge",
        )
    return gnn, dataset
