"""The readers of untrusted input, as functions of bytes that may raise only domain errors."""

from __future__ import annotations

import io
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from d4explain.contracts.defaults import MIB
from d4explain.contracts.errors import DomainError
from d4explain.contracts.features.featurisers import SmilesFeaturiser
from d4explain.contracts.gnn_files import gnn_archive as archive_files
from d4explain.contracts.gnn_files.gnn_archive import GnnArchive
from d4explain.contracts.gnn_files.gnn_tensors import expected_tensors
from d4explain.contracts.gnn_files.weights import check_weights
from d4explain.contracts.gnn_spec import GnnSpecDocument, parse_spec
from service.graph_io.features.expected_features import ExpectedFeatures
from service.graph_io.graph_reader import read_graphs
from service.graph_io.large_graph_reader import LargeForm, read_large
from service.http.faults import InvalidRequestError
from service.http.json_bodies import parse_json
from store.settings import Settings

LAYERS: list[dict[str, Any]] = [
    {"type": "gin", "out": 2, "hidden": 2},
    {"type": "pool", "op": "sum"},
    {"type": "linear", "out": 2},
]
SPEC: GnnSpecDocument = parse_spec({"features": 1, "classes": 2, "layers": LAYERS})
REFUSALS = (DomainError, InvalidRequestError)
_LIMITS = Settings()
_FEATURISER = SmilesFeaturiser(kind="smiles", atoms=["C", "N", "O"], bonds=["single", "double"])
_OF_MOLECULES = ExpectedFeatures(3, "the GNN", featuriser=_FEATURISER)


class Target(StrEnum):
    GRAPHS = "graphs"
    SPEC = "spec"
    WEIGHTS = "weights"
    NPZ = "npz"
    NDJSON = "ndjson"
    ARCHIVE = "archive"
    MOLECULES = "molecules"


def read(target: Target, data: bytes) -> bool:
    """Whether the reader accepts the input; any error but a refusal is a fault of the reader."""
    try:
        _READERS[target](data)
    except REFUSALS:
        return False
    return True


def _read_graphs(data: bytes) -> None:
    document = parse_json(data)
    graphs = document if isinstance(document, list) else [document]
    for graph in read_graphs(graphs, "/graphs", _LIMITS, expected=None):
        graph.model_dump_json().encode()  # as it is stored


def _read_spec(data: bytes) -> None:
    spec = parse_spec(parse_json(data), max_features=_LIMITS.max_features)
    expected_tensors(spec)
    spec.model_dump_json().encode()


def _read_weights(data: bytes) -> None:
    check_weights(data, SPEC)


def _read_npz(data: bytes) -> None:
    read_large(io.BytesIO(data), LargeForm.NPZ, _LIMITS)


def _read_ndjson(data: bytes) -> None:
    read_large(io.BytesIO(data), LargeForm.NDJSON, _LIMITS)


def _read_archive(data: bytes) -> None:
    archive = GnnArchive(data)
    archive.read(archive_files.SPEC, MIB)
    archive.read(archive_files.WEIGHTS, MIB)


def _read_molecule(data: bytes) -> None:
    posted = {"smiles": data.decode("utf-8", "replace")}
    read_graphs([posted], "/graphs", _LIMITS, _OF_MOLECULES)


_READERS: dict[Target, Callable[[bytes], None]] = {
    Target.GRAPHS: _read_graphs,
    Target.SPEC: _read_spec,
    Target.WEIGHTS: _read_weights,
    Target.NPZ: _read_npz,
    Target.NDJSON: _read_ndjson,
    Target.ARCHIVE: _read_archive,
    Target.MOLECULES: _read_molecule,
}
