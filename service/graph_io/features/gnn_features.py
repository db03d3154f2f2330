"""The features that a registered GNN expects, and whether a reference set has them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from d4explain.contracts.features.feature_schema import (
    ColumnRule,
    broken_rows,
    column_rules,
    edge_column_rules,
)
from d4explain.contracts.features.featurisers import featuriser_of
from service.graph_io.features.expected_features import ExpectedEdgeAttributes, ExpectedFeatures
from service.http.faults import reject
from store.artifacts import graph_sets, large_graphs
from store.artifacts.files import TenantArtifacts
from store.catalogue import gnns
from store.database.tables import Dataset, Gnn
from store.store import Store


def expected_features(gnn: Gnn) -> ExpectedFeatures:
    source = f"the GNN {gnn.id}"
    return ExpectedFeatures(
        gnn.spec["features"],
        source,
        column_rules(gnn.spec),
        featuriser_of(gnn.spec),
        ExpectedEdgeAttributes(
            gnns.edge_features(gnn), f"{source} takes", edge_column_rules(gnn.spec)
        ),
        tuple(gnn.spec.get("class_names") or ()),
    )


def check_column_rules(store: Store, gnn: Gnn, dataset: Dataset) -> None:
    """Rejects a reference set whose columns hold other values than the GNN reads."""
    digest, rules = dataset.graphs_digest, column_rules(gnn.spec)
    artifacts = store.artifacts.of(dataset.tenant_id)
    if dataset.large:
        violation = _first_violation_in_large_graph(artifacts, digest, rules)
    else:
        edge_rules = edge_column_rules(gnn.spec)
        violation = _first_violation(artifacts, digest, rules, edge_rules)
    if violation is not None:
        reject("/dataset", f"{violation} of {dataset.id}, so it does not fit the GNN {gnn.id}")


@lru_cache(maxsize=256)  # a digest identifies its content, so a cached result stays valid
def _first_violation(
    artifacts: TenantArtifacts,
    digest: str,
    rules: tuple[ColumnRule, ...],
    edge_rules: tuple[ColumnRule, ...],
) -> str | None:
    if not rules and not edge_rules:
        return None
    packed = graph_sets.arrays(artifacts.get(digest))
    checked = [("node", packed.x, packed.node_ptr, rules)]
    if packed.edge_attr is not None:
        checked.append(("edge", packed.edge_attr, packed.edge_ptr, edge_rules))
    for what, values, starts, own_rules in checked:
        broken = next(broken_rows(values, own_rules), None)
        if broken is not None:
            graph = int(np.searchsorted(starts, broken.row, side="right")) - 1
            position = broken.row - int(starts[graph])
            return f"{broken.detail} at {what} {position} of graph {graph}"
    return None


@lru_cache(maxsize=256)
def _first_violation_in_large_graph(
    artifacts: TenantArtifacts, digest: str, rules: tuple[ColumnRule, ...]
) -> str | None:
    if not rules:
        return None
    with artifacts.open_large(digest) as file:
        broken = next(broken_rows(large_graphs.mapped(file).x, rules), None)
    return None if broken is None else f"{broken.detail} at node {broken.row}"
