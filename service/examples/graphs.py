"""Examples of graphs that are read, not explained."""

from __future__ import annotations

from service.examples.shared import NODE_LINK_GRAPH, Example

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
