"""What the GNN says of patterns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from d4explain.gnn.edge_attributes import UsualAttributes
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from models.global_counterfactuals.config import GlobalConfig
from models.global_counterfactuals.typed_graphs import TypedGraph


@dataclass
class PatternClasses:
    """Classifies patterns with the sparse GNN; counts and remembers."""

    gnn: Gnn
    config: GlobalConfig
    rows: Tensor  # [type, feature] the features that a node of each type gets
    usual: UsualAttributes | None  # attributes of edges, if the GNN reads some
    device: torch.device
    evaluations: int = 0
    _known: dict[tuple[bytes, bytes], Tensor] = field(default_factory=dict)

    def graph(self, pattern: TypedGraph) -> Graph:
        features, edges = self.rows[pattern.types], pattern.edges
        if self.usual is None:
            return Graph(features, edges)
        attributes = self.usual.of_pairs(features, edges[0], edges[1])
        return Graph(features, edges, edge_attributes=attributes, usual=self.usual)

    def probabilities(self, patterns: Sequence[TypedGraph]) -> Tensor:
        """[pattern, class]"""
        new = {pattern.key(): pattern for pattern in patterns}
        new = {key: pattern for key, pattern in new.items() if key not in self._known}
        if new:
            graphs = [self.graph(pattern) for pattern in new.values()]
            answers = predict(self.gnn, graphs, self.device).cpu()
            self._known.update(zip(new, answers, strict=True))
            self.evaluations += len(new)
        return torch.stack([self._known[pattern.key()] for pattern in patterns])

    def margins(self, patterns: Sequence[TypedGraph]) -> Tensor:
        """Above 0 for patterns of the wanted class: [pattern]."""
        probabilities = self.probabilities(patterns)
        source, target = self.config.source_class, self.config.target_class
        if target is None:
            others = probabilities.clone()
            others[:, source] = -1.0
            return others.amax(dim=1) - probabilities[:, source]
        others = probabilities.clone()
        others[:, target] = -1.0
        return probabilities[:, target] - others.amax(dim=1)
