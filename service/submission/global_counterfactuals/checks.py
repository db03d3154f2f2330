"""Checks a request for global counterfactuals and converts it to the request of its job."""

from __future__ import annotations

from functools import lru_cache

from d4explain.contracts.global_counterfactuals.requests import GlobalRequest
from service.graph_io.features.node_type_columns import have_node_types
from service.http.faults import reject
from service.schemas import GlobalIn
from service.submission.explanation_requests import class_number
from store.artifacts import graph_sets
from store.artifacts.files import TenantArtifacts
from store.catalogue import gnns
from store.catalogue.black_boxes import is_black_box
from store.database.tables import Dataset, Gnn
from store.store import Store


def global_request(body: GlobalIn, gnn: Gnn, dataset: Dataset, store: Store) -> GlobalRequest:
    if gnns.classifies_nodes(gnn):
        reject(
            "/gnn",
            f"{gnn.id} classifies nodes; global counterfactuals need a GNN that classifies graphs",
        )
    if is_black_box(gnn):
        reject(
            "/gnn",
            f"{gnn.id} is behind a URL; global counterfactuals need a GNN with weights, because "
            "they classify the whole dataset and thousands of candidates",
        )
    source = class_number(body.source_class, gnn, "/source_class")
    target = None if body.target_class is None else class_number(body.target_class, gnn)
    if source == target:
        reject(
            "/target_class",
            f"is class {source}, which is also `source_class`; counterfactuals have another class",
        )
    _check_graphs(dataset, store)
    fields = body.model_dump(include=set(GlobalRequest.model_fields))
    return GlobalRequest.model_validate({**fields, "source_class": source, "target_class": target})


def _check_graphs(dataset: Dataset, store: Store) -> None:
    limit = store.settings.exact_nodes
    if dataset.max_nodes > limit:
        reject(
            "/dataset",
            f"the largest graph of {dataset.id} has {dataset.max_nodes:,} nodes; global "
            f"counterfactuals accept datasets whose graphs have at most {limit:,}",
        )
    if not _have_node_types(store.artifacts.of(dataset.tenant_id), dataset.graphs_digest):
        reject(
            "/dataset",
            f"the node features of {dataset.id} are measurements; global counterfactuals change "
            "node types and need features that are a one-hot code, one of few distinct rows, or "
            "equal for all nodes of a graph",
        )


@lru_cache(maxsize=256)  # a digest identifies its content, so a cached result stays valid
def _have_node_types(artifacts: TenantArtifacts, digest: str) -> bool:
    packed = graph_sets.arrays(artifacts.get(digest))
    return have_node_types(packed.x, packed.node_ptr)
