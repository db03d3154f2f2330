"""One graph of an answer, and its conversion to PyG, NetworkX and SMILES."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from d4explain.contracts.results import (
    Edit,
    EditedMolecule,
    Molecule,
    Prediction,
    ResultGraph,
)
from d4explain.errors import D4Error


class ConversionError(D4Error, ValueError):
    """A graph of an answer has no such form, or a package is missing."""


@dataclass(frozen=True)
class AnswerGraph:
    """A graph with the GNN's prediction and the edits that lead to it."""

    graph: ResultGraph
    prediction: Prediction
    edits: tuple[Edit, ...] = ()
    molecule: Molecule | EditedMolecule | None = None

    def to_pyg(self) -> Any:
        """A PyG `Data` with both directions of every edge; `node_ids` has the ids that you sent."""
        try:
            import torch  # noqa: PLC0415
            from torch_geometric.data import Data  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise ConversionError(f"to_pyg needs the package {error.name!r}") from error
        position = {node.id: index for index, node in enumerate(self.graph.nodes)}
        pairs = [(position[edge.source], position[edge.target]) for edge in self.graph.edges]
        edge_index = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
        data = Data(
            x=torch.tensor([node.x for node in self.graph.nodes], dtype=torch.float32),
            edge_index=torch.cat([edge_index, edge_index.flip(0)], dim=1),
            predicted_class=self.prediction.predicted_class,
            node_ids=[node.id for node in self.graph.nodes],
        )
        attributes = [edge.edge_attr for edge in self.graph.edges if edge.edge_attr is not None]
        if attributes:
            data.edge_attr = torch.tensor(attributes * 2, dtype=torch.float32)
        return data

    def to_networkx(self) -> Any:
        """A `networkx.Graph`; nodes have `x`, added edges have `added=True`."""
        try:
            import networkx  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise ConversionError(f"to_networkx needs the package {error.name!r}") from error
        graph = networkx.Graph(predicted_class=self.prediction.predicted_class)
        graph.add_nodes_from((node.id, {"x": node.x}) for node in self.graph.nodes)
        added = {
            frozenset((edit.source, edit.target)) for edit in self.edits if edit.action == "add"
        }
        for edge in self.graph.edges:
            is_added = frozenset((edge.source, edge.target)) in added
            attributes = {} if edge.edge_attr is None else {"edge_attr": edge.edge_attr}
            graph.add_edge(edge.source, edge.target, added=is_added, **attributes)
        return graph

    def to_smiles(self) -> str:
        """The molecule; only graphs that were posted as SMILES are molecules."""
        if self.molecule is None:
            raise ConversionError("the graph is not a molecule: it was not posted as SMILES")
        if self.molecule.smiles is None:
            violations = getattr(self.molecule, "valence_violations", ())
            raise ConversionError(f"the edited molecule is not valid: {_valences(violations)}")
        return self.molecule.smiles


def _valences(violations: Sequence[Any]) -> str:
    listed = [
        f"{found.element} at node {found.node} has {found.valence} bonds, {found.allowed} allowed"
        for found in violations
    ]
    return "; ".join(listed) or "RDKit cannot read it"
