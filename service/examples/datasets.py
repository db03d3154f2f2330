"""Examples of datasets."""

from __future__ import annotations

from service.examples.shared import CREATED, NODE_LINK_GRAPH, PYG_GRAPH, SET_ID, SHA, Example

DATASET_IN: Example = {
    "name": "motifs",
    "graphs": [{**NODE_LINK_GRAPH, "label": 0}, {**PYG_GRAPH, "label": 1}],
}
EDGE_ATTRIBUTES_IN: Example = {
    "name": "bonds",
    "graphs": [
        {
            "nodes": [{"id": name, "x": [1.0]} for name in ("a", "b", "c")],
            "edges": [
                {"source": "a", "target": "b", "edge_attr": [1.0, 0.0]},
                {"source": "b", "target": "c", "edge_attr": [0.0, 1.0]},
            ],
            "label": 0,
        },
        {**PYG_GRAPH, "edge_attr": [[1.0, 0.0]] * 4, "label": 1},
    ],
}
DATASET: Example = {
    "id": SET_ID,
    "name": "motifs",
    "version": 1,
    "sha256": SHA,
    "graph_count": 2,
    "features": 1,
    "edge_features": 0,
    "label_counts": {"0": 1, "1": 1},
    "max_nodes": 6,
    "mean_nodes": 5.0,
    "mean_edges": 5.5,
    "large": False,
    "warnings": [],
    "metadata": {"team": "risk"},
    "created_at": CREATED,
}
LARGE_LINES = """{"x": [[1.0], [1.0], [1.0]]}
{"x": [[1.0]], "edge_index": [[0, 1, 2], [1, 2, 3]]}
"""
LARGE_DATASET: Example = {
    **DATASET,
    "name": "web graph",
    "graph_count": 1,
    "label_counts": {},
    "max_nodes": 4,
    "mean_nodes": 4.0,
    "mean_edges": 3.0,
    "large": True,
}
