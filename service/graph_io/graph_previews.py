"""A posted graph as the service reads it, with positions to draw it at."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from d4explain.contracts.features.gnn_names import gnn_names
from d4explain.contracts.requests import CanonicalGraph
from d4explain.contracts.results import Molecule, ResultGraph
from service.drawing.layout import layout
from service.drawing.molecule_svg import molecule_positions
from service.drawing.node_types import NodeTypes, node_types
from service.graph_io.features.gnn_features import expected_features
from service.graph_io.graph_reader import read_graph
from service.graph_io.unread_attributes import InputWarnings
from service.graph_io.writing.result_graphs import as_result_graph
from service.http.faults import reject
from store.database.tables import Gnn
from store.molecules import MoleculeError, ReadMolecule
from store.settings import Settings

_MAX_ATOMS = 150  # RDKit blocks other threads while it computes coordinates


class PreviewType(BaseModel):
    """A type of nodes in the legend."""

    model_config = ConfigDict(extra="forbid")

    name: str
    count: int


class GraphPreview(BaseModel):
    """A graph as the service reads it, and where to draw its nodes."""

    model_config = ConfigDict(extra="forbid")

    graph: ResultGraph
    positions: list[list[float]] = Field(
        description="x and y of each node; neighbours are about 1 apart."
    )
    types: list[PreviewType] = Field(
        description="Types of nodes; empty if all look the same or there are many."
    )
    node_types: list[int] = Field(
        description="Position in `types` of each node's type; empty without types."
    )
    molecule: Molecule | None
    warnings: list[str]


def preview(raw: object, gnn: Gnn, settings: Settings) -> GraphPreview:
    """Reads a posted graph of any format and computes positions."""
    warnings = InputWarnings()
    graph = read_graph(raw, "/graph", settings, expected_features(gnn), warnings)
    if len(graph.node_ids) > settings.exact_nodes:
        reject(
            "/graph",
            f"has {len(graph.node_ids):,} nodes; previews have at most {settings.exact_nodes:,}",
        )
    drawn = as_result_graph(graph)
    read = None if graph.molecule is None else ReadMolecule(graph.molecule)
    types = node_types(drawn.nodes, gnn_names(gnn.spec))
    return GraphPreview(
        graph=drawn,
        positions=_positions(graph, read),
        types=[PreviewType(name=entry.name, count=entry.count) for entry in types.entries],
        node_types=_type_numbers(types),
        molecule=None if read is None else read.document(graph.node_ids),
        warnings=warnings.texts,
    )


def _positions(graph: CanonicalGraph, molecule: ReadMolecule | None) -> list[list[float]]:
    if molecule is not None and len(graph.node_ids) <= _MAX_ATOMS:
        try:
            return molecule_positions(molecule)
        except (MoleculeError, ImportError):  # RDKit's drawing module needs additional libraries
            pass
    points: list[list[float]] = layout(len(graph.node_ids), graph.edges).round(3).tolist()
    return points


def _type_numbers(types: NodeTypes) -> list[int]:
    number = {entry: position for position, entry in enumerate(types.entries)}
    return [number[entry] for entry in types.of_nodes]
