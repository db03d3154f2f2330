"""Graphs of a stored reference set, in a form that can be posted again."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from d4explain.contracts.requests import CanonicalGraph
from d4explain.contracts.results import ResultGraph
from service.graph_io.writing.result_graphs import as_result_graph
from store.artifacts import graph_sets
from store.artifacts.artifact_store import ArtifactStore
from store.database.tables import Dataset
from store.errors import Conflict


class DatasetGraph(BaseModel):
    """One graph of a reference set: as nodes and edges, or as SMILES if it was posted so."""

    model_config = ConfigDict(extra="forbid")

    position: int = Field(description="Position in the reference set, from 0.")
    label: int | None
    graph: ResultGraph | None
    smiles: str | None


class DatasetGraphs(BaseModel):
    """Consecutive graphs of a reference set."""

    model_config = ConfigDict(extra="forbid")

    graph_count: int = Field(description="Graphs of the whole set.")
    graphs: list[DatasetGraph]


def dataset_graphs(
    artifacts: ArtifactStore, dataset: Dataset, offset: int, limit: int
) -> DatasetGraphs:
    """The graphs from position `offset`; refuses large graphs."""
    if dataset.large:
        raise Conflict(f"{dataset.id} is one large graph; ask about its nodes by number")
    chosen = graph_sets.unpack(
        artifacts.of(dataset.tenant_id).get(dataset.graphs_digest), slice(offset, offset + limit)
    )
    return DatasetGraphs(
        graph_count=dataset.graph_count,
        graphs=[_converted(offset + number, graph) for number, graph in enumerate(chosen)],
    )


def _converted(position: int, graph: CanonicalGraph) -> DatasetGraph:
    if graph.molecule is not None:
        return DatasetGraph(
            position=position, label=graph.label, graph=None, smiles=graph.molecule.text
        )
    return DatasetGraph(
        position=position, label=graph.label, graph=as_result_graph(graph), smiles=None
    )
