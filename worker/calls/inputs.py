"""The rows that a call refers to."""

from __future__ import annotations

from typing import NamedTuple

from store.catalogue import datasets, gnns
from store.database.tables import Dataset, Gnn
from store.store import Store


class Inputs(NamedTuple):
    gnn: Gnn
    dataset: Dataset


def read_inputs(store: Store, tenant: str, gnn: str, dataset: str) -> Inputs:
    """Raises NotFound if one of them was deleted."""
    with store.database.reading() as session:
        return Inputs(gnns.get(session, gnn, tenant), datasets.get(session, dataset, tenant))
