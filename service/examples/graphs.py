"""Examples of graphs that are read or changed, not explained."""

from __future__ import annotations

from service.examples.shared import AFTER, NODE_LINK_GRAPH, Example

GRAPH_PREVIEW_IN: Example = {"graph": NODE_LINK_GRAPH}
GRAPH_PREVIEW: Example = {
    "graph": NODE_LINK_GRAPH,
    "positions": [[-0.5, 0.5], [0.5, 0.5], [0.5, 1.5], [-0.5, 1.5], [0.0, -0.4], [0.0, -1.4]],
    "types": [],
    "node_types": [],
    "molecule": None,
    "warnings": [],
}
DATASET_GRAPHS: Example = {
    "graph_count": 2,
    "graphs": [{"position": 0, "label": 0, "graph": NODE_LINK_GRAPH, "smiles": None}],
}
WHAT_IF_IN: Example = {"graph": 0, "toggles": [["b", "roof"]]}
WHAT_IF: Example = {"prediction": {**AFTER, "class_name": None}, "edges": 6}
NEAREST: Example = {
    "target_class": 1,
    "nearest": {
        "position": 17,
        "graph": NODE_LINK_GRAPH,
        "smiles": None,
        "node": None,
        "prediction": {**AFTER, "class_name": None},
        "label": 1,
    },
    "distance": 0.42,
    "hops": 2,
    "compares_features": True,
    "compared_count": 100,
}
