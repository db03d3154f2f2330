"""Valid inputs of each reader, from which fuzzing starts."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import numpy as np
import safetensors.numpy

from d4explain.contracts.gnn_files.gnn_archive import write_archive
from d4explain.contracts.gnn_files.gnn_tensors import expected_tensors
from service import examples
from service.examples.shared import NODE_LINK_GRAPH, PYG_GRAPH
from tests.fuzz.targets import LAYERS, SPEC, Target


def _as_json(document: object) -> bytes:
    return json.dumps(document).encode()


def graphs() -> list[bytes]:
    large = {"num_nodes": 3, "edge_index": [[0, 1], [1, 2]]}
    documents = [NODE_LINK_GRAPH, PYG_GRAPH, large, {"smiles": "CCO"}]
    sets = [examples.DATASET_IN["graphs"], examples.EDGE_ATTRIBUTES_IN["graphs"]]
    return [_as_json(document) for document in (*documents, *sets)]


def specs() -> list[bytes]:
    wide = [
        {"type": "sage", "out": 8},
        {"type": "gat", "out": 4, "heads": 2},
        {"type": "gcn", "out": 4},
        {"type": "batch_norm"},
        {"type": "activation", "kind": "relu"},
        *LAYERS[1:],
    ]
    return [
        SPEC.model_dump_json(exclude_none=True).encode(),
        _as_json(examples.GNN_IN["spec"]),
        _as_json({"features": 3, "classes": 2, "layers": wide}),
    ]


def weights() -> list[bytes]:
    tensors = {
        name: np.zeros(tensor.shape, tensor.dtype)
        for name, tensor in expected_tensors(SPEC).items()
    }
    return [bytes(safetensors.numpy.save(tensors))]


def archives() -> list[bytes]:
    return [write_archive({"spec.json": specs()[0], "weights.safetensors": weights()[0]})]


def npz() -> list[bytes]:
    files = []
    for save in (np.savez, np.savez_compressed):
        for arrays in (
            {"edge_index": np.array([[0, 1], [1, 2]])},
            {"edge_index": np.array([[0], [1]]), "x": np.ones((2, 2), np.float32)},
        ):
            file = io.BytesIO()
            save(file, **arrays)
            files.append(file.getvalue())
    return files


def ndjson() -> list[bytes]:
    lines = [
        {"x": [[1.0], [2.0]]},
        {"edge_index": [[0], [1]]},
        {"x": [[3.0]], "edge_index": [[1], [2]]},
    ]
    return [b"\n".join(map(_as_json, lines)), _as_json(lines[1])]


def molecules() -> list[bytes]:
    return [b"CCO", b"C1C(=O)NC1", b"OC(=O)C=CN"]


SEEDS: dict[Target, Callable[[], list[bytes]]] = {
    Target.GRAPHS: graphs,
    Target.SPEC: specs,
    Target.WEIGHTS: weights,
    Target.NPZ: npz,
    Target.NDJSON: ndjson,
    Target.ARCHIVE: archives,
    Target.MOLECULES: molecules,
}
