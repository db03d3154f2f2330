"""Checks ids and features of posted nodes."""

from __future__ import annotations

import numpy as np

from d4explain.contracts.features.feature_schema import broken_rows
from d4explain.contracts.results import NodeId
from service.graph_io.features.expected_features import ExpectedFeatures
from service.graph_io.input_formats import ParsedGraph
from service.http.faults import Faults, shown
from store.settings import Settings


def read_positions(graph: ParsedGraph, faults: Faults) -> dict[NodeId, int]:
    """The position of each node id."""
    positions: dict[NodeId, int] = {}
    by_text: dict[str, int] = {}
    for node, node_id in enumerate(graph.node_ids):
        # 1 and "1" are different ids in JSON, but the same in GraphML and Cytoscape.
        text = str(node_id)
        if text in by_text:
            faults.add(
                graph.pointers.node_id(node),
                f"node {by_text[text]} already has the id {shown(node_id)}",
            )
            continue
        positions[node_id] = by_text[text] = node
    return positions


def read_features(
    graph: ParsedGraph, limits: Settings, expected: ExpectedFeatures | None, faults: Faults
) -> list[list[float]]:
    """[node][feature]; graphs without features get the constant 1."""
    pointers = graph.pointers
    first = next((node for node, row in enumerate(graph.x) if row is not None), None)
    if first is None:
        if expected is not None and expected.size != 1:
            faults.add(
                pointers.features(0),
                f"the nodes have no features; {expected.source} takes {expected.size:,} per node",
            )
        return [[1.0]] * len(graph.x)
    size = len(graph.x[first] or [])
    if not 1 <= size <= limits.max_features:
        faults.add(
            pointers.features(first),
            f"a node has {size:,} features; expected 1 to {limits.max_features:,}",
        )
        return []
    requirement = f"the first node has {size:,}"
    if expected is not None:
        size, requirement = expected.size, f"{expected.source} takes {expected.size:,}"
    rows = []
    for node, row in enumerate(graph.x):
        if row is None:
            faults.add(pointers.features(node), "is missing, while other nodes have features")
        elif len(row) != size:
            faults.add(pointers.features(node), f"has {len(row):,} features; {requirement}")
        else:
            rows.append(row)
    if expected is not None and len(rows) == len(graph.x):
        for broken in broken_rows(np.asarray(rows), expected.column_rules):
            faults.add(pointers.features(broken.row), f"{broken.detail} ({expected.source})")
    return rows
