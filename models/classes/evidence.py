"""Evidence for a pattern: how often it recurs in the class and elsewhere, and its effect."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from models.classes.effects import ERRORS_ABOVE_ZERO, Effect, EffectMeter
from models.classes.reference_graphs import ReferenceGraphs


@dataclass(frozen=True)
class Occurrence:
    graph: int  # position of the reference graph
    nodes: list[int]  # node of that graph for each node of the pattern


@dataclass(frozen=True)
class Evidence:
    """Figures of a pattern on reference graphs that took no part in the search for it."""

    in_class: frozenset[int]  # indices of the graphs of the class that contain it
    elsewhere: frozenset[int]
    class_graphs: int
    other_graphs: int
    occurrences: list[Occurrence]  # in graphs of the class, one per graph
    effect: Effect
    confidence: float | None  # mean probability of the class in reference graphs that contain it

    @property
    def class_support(self) -> float:
        return len(self.in_class) / self.class_graphs

    @property
    def other_support(self) -> float | None:
        """None if there are no graphs of other classes."""
        return len(self.elsewhere) / self.other_graphs if self.other_graphs else None

    @property
    def contrast(self) -> float | None:
        other = self.other_support
        return None if other is None else self.class_support - other

    @property
    def is_positive(self) -> bool:
        """Whether contrast and effect are above 0 beyond chance."""
        contrast = self.contrast
        return (
            contrast is not None
            and contrast > ERRORS_ABOVE_ZERO * self._contrast_error
            and self.effect.is_positive
        )

    @property
    def _contrast_error(self) -> float:
        """Standard error; one success and one failure more keep it above 0 (Agresti and Caffo)."""
        variance = 0.0
        for found, count in (
            (len(self.in_class), self.class_graphs),
            (len(self.elsewhere), self.other_graphs),
        ):
            share = (found + 1) / (count + 2)
            variance += share * (1 - share) / (count + 2)
        return math.sqrt(variance)


class EvidenceMeter:
    """Measures patterns on the measured half of the reference graphs."""

    def __init__(
        self,
        gnn: Gnn,
        target_class: int,
        reference: ReferenceGraphs,
        *,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        half = reference.measured
        self._reference = reference
        self._effects = EffectMeter(gnn, target_class, half, generator=generator, device=device)
        graphs = [*half.in_class.graphs, *half.elsewhere.graphs]
        self._probabilities: Tensor = predict(gnn, graphs, device)[:, target_class].double()

    def measure(self, graph: Graph) -> Evidence:
        half = self._reference.measured
        pattern = self._reference.pattern(graph)
        found = half.in_class.occurrences(pattern)
        elsewhere = frozenset(half.elsewhere.occurrences(pattern))
        positions = half.in_class.positions
        return Evidence(
            in_class=frozenset(found),
            elsewhere=elsewhere,
            class_graphs=half.in_class.count,
            other_graphs=half.elsewhere.count,
            occurrences=[Occurrence(positions[index], nodes) for index, nodes in found.items()],
            effect=self._effects.effect(graph, pattern, found),
            confidence=self._confidence(found, elsewhere),
        )

    def _confidence(
        self, in_class: dict[int, list[int]], elsewhere: frozenset[int]
    ) -> float | None:
        """Graphs of the class and others count as often as they occur in the reference set."""
        half, totals = self._reference.measured, self._reference.totals
        weights = torch.zeros(len(self._probabilities), dtype=torch.float64)
        weights[list(in_class)] = totals.in_class / max(half.in_class.count, 1)
        others = [half.in_class.count + index for index in elsewhere]
        weights[others] = totals.elsewhere / max(half.elsewhere.count, 1)
        total = weights.sum()
        return float((weights * self._probabilities).sum() / total) if total > 0 else None
