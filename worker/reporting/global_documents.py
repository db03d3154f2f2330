"""Converts global counterfactuals to the document of their result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from d4explain.contracts.features.featurisers import SmilesFeaturiser, featuriser_of
from d4explain.contracts.features.gnn_names import GnnNames, gnn_names
from d4explain.contracts.global_counterfactuals import results as documents
from d4explain.contracts.global_counterfactuals.requests import GlobalRequest
from d4explain.contracts.receipts.receipt import Receipt
from d4explain.gnn.graphs import Graph
from models.global_counterfactuals.edit_paths import EditPath
from models.global_counterfactuals.edit_rules import EditRule
from models.global_counterfactuals.explain import GlobalCounterfactual, GlobalExplanation
from models.realism.node_types import NodeTypes
from worker.cases.editable_molecules import generated_molecule
from worker.reporting.class_documents import numbered_graph
from worker.reporting.documents import prediction, rounded, rounded_all, rounded_if_known


@dataclass(frozen=True)
class _Naming:
    """How the GNN's spec names classes, node types and elements."""

    names: GnnNames
    featuriser: SmilesFeaturiser | None  # None if the GNN reads no molecules


def global_document(
    found: GlobalExplanation,
    request: GlobalRequest,
    spec: Mapping[str, Any],
    graphs: Sequence[Graph],
    *,
    load_seconds: float,
    explain_seconds: float,
    receipt: Receipt,
    is_cut: bool,
) -> documents.GlobalResult:
    naming = _Naming(gnn_names(spec), featuriser_of(spec))
    nearest = {(one.counterfactual, one.graph): one.path for one in found.covered}
    paths = {
        place: _path(path, graphs[place[1]], found.types)
        for place, path in list(nearest.items())[: documents.MAX_PATHS]
    }
    costs = [path.cost for path in nearest.values()]
    ignores_attributes = any(graph.edge_attributes is not None for graph in graphs)
    return documents.GlobalResult(
        source_class=request.source_class,
        target_class=request.target_class,
        theta=request.theta,
        reference_count=len(graphs),
        source_count=len(found.asked),
        too_large_count=found.too_large,
        covered_count=len(found.covered),
        coverage=rounded(found.share) if found.asked else None,
        mean_cost=rounded(sum(costs) / len(costs)) if costs else None,
        counterfactuals=[
            _counterfactual(
                one,
                {near.graph for near in one.near if (number, near.graph) in nearest},
                {graph: path for (owner, graph), path in paths.items() if owner == number},
                len(found.asked),
                naming,
            )
            for number, one in enumerate(found.counterfactuals)
        ],
        curves=[
            documents.CoverageCurve(
                theta=theta,
                coverage=rounded_all(shares),
                mean_cost=[rounded_if_known(cost) for cost in found.mean_costs[theta]],
            )
            for theta, shares in found.coverage.items()
        ]
        if found.asked
        else [],
        median_distance=[rounded_if_known(value) for value in found.median_distance],
        rules=[_rule(rule, len(found.covered)) for rule in found.rules],
        node_types=_node_types(found, graphs, naming.names),
        ignores_features=found.ignores_features,
        ignores_edge_attributes=ignores_attributes,
        reason=found.reason,
        timings=documents.GlobalTimings(
            load_seconds=rounded(load_seconds), explain_seconds=rounded(explain_seconds)
        ),
        receipt=receipt,
        warnings=_warnings(found, request, ignores_attributes=ignores_attributes, is_cut=is_cut),
    )


def _counterfactual(
    one: GlobalCounterfactual,
    nearest: Set[int],
    paths: Mapping[int, documents.EditPath],
    total: int,
    naming: _Naming,
) -> documents.GlobalCounterfactual:
    return documents.GlobalCounterfactual(
        graph=numbered_graph(one.graph),
        node_types=one.types.tolist(),
        prediction=prediction(one.probabilities, naming.names),
        covered_share=rounded(len(one.near) / total),
        added_share=rounded(one.gain / total),
        covered=[
            documents.CoveredGraph(
                graph=near.graph,
                cost=near.cost,
                distance=rounded(near.distance),
                nearest=near.graph in nearest,
                path=paths.get(near.graph),
            )
            for near in one.near
        ],
        molecule=generated_molecule(one.graph, naming.featuriser),
    )


def _path(path: EditPath, graph: Graph, types: NodeTypes) -> documents.EditPath:
    before = types.types(graph.features.cpu()).tolist()
    return documents.EditPath(
        added_nodes=[
            documents.AddedNode(node=graph.node_count + place, type=kind)
            for place, kind in enumerate(path.inserted)
        ],
        removed_nodes=list(path.removed),
        changed_types=[
            documents.TypeChange(node=node, before=before[node], after=kind)
            for node, kind in path.retyped
        ],
        added_edges=list(path.added_edges),
        removed_edges=list(path.removed_edges),
        nodes=list(path.places),
    )


def _rule(rule: EditRule, covered: int) -> documents.GlobalEditRule:
    return documents.GlobalEditRule(
        kind=rule.kind,
        types=list(rule.types),
        path_count=rule.paths,
        share=rounded(rule.paths / covered),
    )


def _node_types(
    found: GlobalExplanation, graphs: Sequence[Graph], names: GnnNames
) -> list[documents.NodeTypeRow]:
    """Those of the reference graphs; counterfactuals have no others."""
    seen = {kind for graph in graphs for kind in found.types.types(graph.features.cpu()).tolist()}
    return [
        documents.NodeTypeRow(type=kind, name=names.type_name(row), x=rounded_all(row))
        for kind, row in enumerate(found.usual_rows.tolist())
        if kind in seen
    ]


def _warnings(
    found: GlobalExplanation, request: GlobalRequest, *, ignores_attributes: bool, is_cut: bool
) -> list[str]:
    warnings = []
    if is_cut:
        warnings.append(
            f"the time budget ended the search after {len(found.counterfactuals)} of "
            f"{request.count} counterfactuals"
        )
    if found.ignores_features:
        warnings.append(
            "nodes have features besides their type; paths do not change them, and counterfactuals "
            "have the most frequent ones of each type"
        )
    if ignores_attributes:
        warnings.append(
            "edges have attributes; paths do not change them, and counterfactuals have the most "
            "frequent ones of each pair of node types"
        )
    if found.too_large:
        warnings.append(
            f"{found.too_large:,} graphs of the class are too large to take part; they count as "
            "not covered"
        )
    return warnings
