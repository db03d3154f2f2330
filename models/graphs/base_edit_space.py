"""The interface that the counterfactual search needs of a graph's edit space.

Two classes implement it: `EditSpace` holds all node pairs of a small graph in dense form, and
`CandidateSpace` holds a sample of the pairs of a large graph.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn
from models.graphs.valences import ValenceLedger

if TYPE_CHECKING:
    from models.graphs.edits import EditSpace

EditSet = tuple[int, ...]  # ascending positions in BaseEditSpace.sources and .targets
LARGE_SET = 256  # edits; larger sets are pruned by halves and cached as a digest only

_CELLS_AT_ONCE = 2**21


@dataclass(frozen=True)
class BaseEditSpace(ABC):
    """The node pairs of one graph that may be toggled, and the edit budget."""

    graph: Graph
    sources: Tensor  # [pair] int64
    targets: Tensor  # [pair] int64, source < target
    present: Tensor  # [pair] bool, True where the edit removes an edge
    budget: int
    keep_connected: bool
    ledger: ValenceLedger | None  # free valences of the nodes, if the rules limit them

    @property
    def count(self) -> int:
        """Number of pairs that may be toggled."""
        return self.sources.shape[0]

    @property
    @abstractmethod
    def dense_form(self) -> EditSpace | None:
        """The space itself if its graphs have a dense form, else None."""

    @abstractmethod
    def apply_all(self, edit_sets: Sequence[EditSet]) -> list[Graph]:
        """The discrete graph after each edit set, its edges sorted."""

    @abstractmethod
    def attributes_of(self, pair: int) -> tuple[float, ...] | None:
        """Attributes of the edge that an edit removes or adds; None if edges have none."""

    @abstractmethod
    def component_counts(self, edit_sets: Sequence[EditSet]) -> list[int]:
        """Number of connected components after each edit set."""

    @abstractmethod
    def statistics_shift(self, edit_sets: Sequence[EditSet]) -> list[float]:
        """How far the statistics of each edited graph are from those of the input."""

    @abstractmethod
    def symmetry_codes(self, edit_sets: Sequence[EditSet]) -> list[int]:
        """One code per edit set, equal for sets that a symmetry of the graph maps to each other."""

    @abstractmethod
    def logits(self, gnn: Gnn, edit_sets: Sequence[EditSet], device: torch.device) -> Tensor:
        """The GNN's logits of each edited graph, in the fastest form: [set, class]."""

    @abstractmethod
    def sets_per_pass(self, gnn: Gnn) -> int:
        """How many edited graphs one forward pass of the GNN takes."""

    @abstractmethod
    def _disconnects(self, edit_sets: Sequence[EditSet]) -> list[bool]:
        """Whether each set separates nodes that were connected."""

    def apply(self, edits: EditSet) -> Graph:
        """The discrete graph after the edits, its edges sorted."""
        (graph,) = self.apply_all([edits])
        return graph

    def allowed(self, edit_sets: Sequence[EditSet]) -> list[bool]:
        """Whether each set respects the budget, the valences and the connectivity rule."""
        verdicts = [len(edits) <= self.budget for edits in edit_sets]
        if self.ledger is not None:
            kept = [row for some in self._bounded(edit_sets) for row in self.ledger.kept(some)]
            verdicts = [verdict and row for verdict, row in zip(verdicts, kept, strict=True)]
        if not self.keep_connected:
            return verdicts
        removes = self.present.tolist()
        # Additions alone cannot disconnect anything.
        unchecked = [
            edits
            for edits, verdict in zip(edit_sets, verdicts, strict=True)
            if verdict and any(removes[pair] for pair in edits)
        ]
        disconnects = dict(zip(unchecked, self._disconnects(unchecked), strict=True))
        return [
            verdict and not disconnects.get(edits, False)
            for edits, verdict in zip(edit_sets, verdicts, strict=True)
        ]

    def _bounded(self, edit_sets: Sequence[EditSet]) -> Iterator[Sequence[EditSet]]:
        """Slices whose adjacencies fit into memory together."""
        step = max(1, _CELLS_AT_ONCE // max(1, self.graph.node_count) ** 2)
        for start in range(0, len(edit_sets), step):
            yield edit_sets[start : start + step]
