"""What features of nodes and edges a GNN takes, and whether a reference set has them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from d4explain.contracts.feature_schema import (
    FeatureSchemaDocument,
    OneHotGroup,
    broken_rows,
    groups_of,
)
from d4explain.contracts.featurisers import featuriser_of
from service.graph_io.edge_reader import EdgeSize
from service.graph_io.graph_reader import FeatureSize
from service.http.faults import reject
from store.artifacts import graph_sets, large_graphs
from store.artifacts.files import Artifacts
from store.catalogue import gnns
from store.database.tables import Dataset, Gnn
from store.store import Store


def features_of(gnn: Gnn) -> FeatureSize:
    owner = f"the GNN {gnn.id}"
    return FeatureSize(
        gnn.spec["features"],
        owner,
        _groups(gnn),
        featuriser_of(gnn.spec),
        EdgeSize(gnns.edge_features(gnn), f"{owner} takes"),
    )


def check_groups(store: Store, gnn: Gnn, dataset: Dataset) -> None:
    """Refuses a reference set that breaks the one-hot groups of the GNN's feature schema."""
    look = _first_broken_row if dataset.large else _first_broken
    broken = look(store.artifacts, dataset.graphs_digest, _groups(gnn))
    if broken is not None:
        reject("/dataset", f"{broken} of {dataset.id}, so it does not fit the GNN {gnn.id}")


def _groups(gnn: Gnn) -> tuple[OneHotGroup, ...]:
    schema = gnn.spec.get("feature_schema")
    return groups_of(None if schema is None else FeatureSchemaDocument.model_validate(schema))


@lru_cache(maxsize=256)  # digests name their content, so what was found once stays true
def _first_broken(artifacts: Artifacts, digest: str, groups: tuple[OneHotGroup, ...]) -> str | None:
    if not groups:
        return None
    packed = graph_sets.arrays(artifacts.get(digest))
    broken = next(broken_rows(packed.x, groups), None)
    if broken is None:
        return None
    graph = int(np.searchsorted(packed.node_ptr, broken.row, side="right")) - 1
    node = broken.row - int(packed.node_ptr[graph])
    return f"{broken.detail} at node {node} of graph {graph}"


@lru_cache(maxsize=256)
def _first_broken_row(
    artifacts: Artifacts, digest: str, groups: tuple[OneHotGroup, ...]
) -> str | None:
    """The same for one large graph."""
    if not groups:
        return None
    with artifacts.open_large(digest) as file:
        broken = next(broken_rows(large_graphs.mapped(file).x, groups), None)
    return None if broken is None else f"{broken.detail} at node {broken.row}"
