"""Ids in addresses and bodies: what has not the form of an id cannot be one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from sqlalchemy.orm import Session

from service.http.faults import Fault, refuse
from service.http.problems import STATUSES, ProblemError
from store.catalogue import datasets, gnns
from store.catalogue.gnn_names import parse_reference
from store.database.tables import Dataset, Gnn
from store.errors import GnnNotReady, NotFound

_ID = re.compile(r"[a-z0-9_]{1,32}")


def checked_id(kind: str, id_: str) -> str:
    """The id, or NotFound without asking the database, which need not take every text."""
    if not _ID.fullmatch(id_):
        raise NotFound(kind, id_)
    return id_


def gnn_filter(session: Session, reference: str | None) -> str | None:
    """The id that a list's parameter `gnn` stands for; that of a deleted GNN is one, too."""
    if reference is None:
        return None
    parsed = parse_reference(reference)
    if parsed is not None and parsed.id is not None:
        return parsed.id
    try:
        return gnns.find(session, reference).id
    except NotFound as error:
        refuse("gnn", str(error), "query")


@contextmanager
def named_by(at: str) -> Iterator[None]:
    """Adds the place in the body that named what was not found or cannot be used yet."""
    try:
        yield
    except (NotFound, GnnNotReady) as error:
        status, slug = STATUSES[type(error)]
        text = str(error)
        raise ProblemError(
            HTTPStatus(status), slug, text[:1].upper() + text[1:], [Fault(at, text)]
        ) from error


def usable(
    session: Session, reference: str, dataset_id: str, *, lock: bool = False
) -> tuple[Gnn, Dataset]:
    """A ready GNN and a reference set with as many features; with `lock`, the GNN is kept."""
    with named_by("/gnn"):
        gnn = gnns.require_ready(session, reference, lock=lock)
    with named_by("/dataset"):
        dataset = datasets.get(session, checked_id("dataset", dataset_id))
    takes_features = gnn.spec["features"]
    if dataset.features != takes_features:
        refuse(
            "/dataset",
            f"the graphs of {dataset.id} have {dataset.features:,} features per node; "
            f"the GNN {gnn.id} takes {takes_features:,}",
        )
    if dataset.large and not gnns.classifies_nodes(gnn):
        refuse(
            "/dataset",
            f"{dataset.id} is one large graph, for GNNs that classify nodes; {gnn.id} classifies "
            "graphs",
        )
    # Attributes that a GNN does not read are no hindrance: sets may serve several GNNs.
    on_edges = gnns.edge_features(gnn)
    if on_edges and dataset.edge_features != on_edges:
        refuse(
            "/dataset",
            f"the edges of {dataset.id} have {dataset.edge_features or 'no'} attributes; "
            f"the GNN {gnn.id} takes {on_edges} per edge",
        )
    return gnn, dataset
