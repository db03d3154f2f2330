"""Values that several examples share: ids, times and graphs."""

from __future__ import annotations

from typing import Any

Example = dict[str, Any]

GNN_ID = "gnn_01kaajwd2kq5w0v8yh4m"
SET_ID = "set_01kaajwg7m3f9c2r6tzx"
DENOISER_ID = "den_01kaajwjb8t1n5d0kpqe"
WITNESS_SET_ID = "wit_01kaajwjc2x8r4v7n9sq"
EXPLANATION_ID = "exp_01kaajwnx4h7s9g2bvma"
TRAIN_JOB_ID = "job_01kaajwjb9e6z3y8r0cw"
JOB_ID = "job_01kaajwnx5a2m7f4d8tk"
PROVISIONAL_JOB_ID = "job_01kaajwnx5b9q2w6e3zr"
PROBE_JOB_ID = "job_01kaajwd2n0x9s6q3bjh"
PREDICT_JOB_ID = "job_01kaajwkz1v4c8p5g2me"
SHA = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
CREATED, STARTED, DONE = (
    "2026-11-16T09:30:00.000Z",
    "2026-11-16T09:30:00.120Z",
    "2026-11-16T09:30:01.480Z",
)

SPEC: Example = {
    "task": "graph",
    "features": 1,
    "classes": 2,
    "class_names": ["house", "cycle"],
    "layers": [
        {"type": "gcn", "out": 32},
        {"type": "activation", "kind": "relu"},
        {"type": "gcn", "out": 32},
        {"type": "activation", "kind": "relu"},
        {"type": "pool", "op": "mean"},
        {"type": "linear", "out": 2},
    ],
}
# A house (a square with a roof) and one more node at the roof.
NODE_LINK_GRAPH: Example = {
    "nodes": [{"id": name, "x": [1.0]} for name in ("a", "b", "c", "d", "roof", "tail")],
    "edges": [
        {"source": "a", "target": "b"},
        {"source": "b", "target": "c"},
        {"source": "c", "target": "d"},
        {"source": "d", "target": "a"},
        {"source": "a", "target": "roof"},
        {"source": "b", "target": "roof"},
        {"source": "roof", "target": "tail"},
    ],
}
PYG_GRAPH: Example = {
    "x": [[1.0], [1.0], [1.0], [1.0]],
    "edge_index": [[0, 1, 2, 3], [1, 2, 3, 0]],
}
EDITED: Example = {
    "nodes": NODE_LINK_GRAPH["nodes"],
    "edges": [edge for edge in NODE_LINK_GRAPH["edges"] if edge != NODE_LINK_GRAPH["edges"][5]],
}
METADATA: Example = {"team": "risk", "run": 17, "reviewed": False}
BEFORE: Example = {"predicted_class": 0, "probabilities": [0.94, 0.06]}
AFTER: Example = {"predicted_class": 1, "probabilities": [0.17, 0.83]}
