"""Distances of all graphs to the chosen patterns, each shown by an edit path."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from models.global_counterfactuals.alignment import Alignments, align
from models.global_counterfactuals.config import RADII
from models.global_counterfactuals.edit_paths import EditPath, edit_path
from models.global_counterfactuals.population import Population
from models.global_counterfactuals.typed_graphs import TypedGraph

_STARTS = 3  # of each alignment


@dataclass(frozen=True)
class CoveredGraph:
    """A graph of the population within the radius of a pattern."""

    graph: int
    pattern: int
    distance: float
    path: EditPath


@dataclass(frozen=True)
class Nearest:
    """Edits per node and edge of both graphs, between every pattern and every graph."""

    population: Population
    patterns: list[TypedGraph]
    distances: Tensor  # [pattern, graph] float64; infinite if above the largest radius
    costs: Tensor  # [pattern, graph] edits; infinite where the distance is
    aligned: list[tuple[Tensor, Alignments]]  # per pattern: graphs and how they are aligned

    @staticmethod
    def of(
        patterns: list[TypedGraph], population: Population, generator: torch.Generator
    ) -> Nearest:
        shape = (len(patterns), population.count)
        distances = torch.full(shape, float("inf"), dtype=torch.double)
        costs = torch.full(shape, float("inf"), dtype=torch.double)
        aligned: list[tuple[Tensor, Alignments]] = []
        for number, pattern in enumerate(patterns):
            sizes = population.sizes + pattern.size
            near = (population.bounds(pattern) <= RADII[-1] * sizes).nonzero()[:, 0]
            alignments = align(
                pattern,
                [population.graphs[row] for row in near.tolist()],
                population.type_counts.shape[1],
                generator,
                slots=max([pattern.node_count, *population.nodes[near].tolist()]),
                starts=_STARTS,
            )
            shares = alignments.costs.double() / sizes[near]
            shares[shares > RADII[-1]] = float("inf")
            distances[number, near] = shares
            costs[number, near] = alignments.costs.double().masked_fill(
                shares.isinf(), float("inf")
            )
            aligned.append((near, alignments))
        return Nearest(population, patterns, distances, costs, aligned)

    def near(self, number: int, radius: float) -> list[tuple[int, float, int]]:
        """Graphs within the radius of a pattern, their distances and costs; closest first."""
        order = self.distances[number].argsort(stable=True)
        distances = self.distances[number][order]
        count = int((distances <= radius).sum())
        costs = self.costs[number][order][:count].int().tolist()
        return list(zip(order[:count].tolist(), distances[:count].tolist(), costs, strict=True))

    def gain(self, number: int, radius: float) -> int:
        before = (self.distances[:number] <= radius).any(dim=0)
        return int(((self.distances[number] <= radius) & ~before).sum())

    def coverage(self, radius: float, total: int) -> list[float]:
        return [
            int((self.distances[:count] <= radius).any(dim=0).sum()) / total
            for count in range(1, len(self.patterns) + 1)
        ]

    def mean_costs(self, radius: float) -> list[float | None]:
        """Mean edits from the graphs that the first 1, 2, … cover to the nearest of them."""
        means: list[float | None] = []
        for count in range(1, len(self.patterns) + 1):
            best, nearest = self.distances[:count].min(dim=0)
            covered = (best <= radius).nonzero()[:, 0]
            costs = self.costs[nearest[covered], covered]
            means.append(float(costs.mean()) if len(covered) else None)
        return means

    def medians(self, total: int) -> list[float | None]:
        """Median distance of all asked graphs to the nearest of the first 1, 2, …"""
        medians: list[float | None] = []
        for count in range(1, len(self.patterns) + 1):
            ordered = self.distances[:count].amin(dim=0).sort().values
            middle = (total - 1) // 2
            is_known = middle < len(ordered) and bool(ordered[middle].isfinite())
            medians.append(float(ordered[middle]) if is_known else None)
        return medians

    def covered(self, radius: float) -> list[CoveredGraph]:
        """Each graph within the radius with its nearest pattern."""
        if not self.patterns:
            return []
        found = []
        best, nearest = self.distances.min(dim=0)
        for graph in (best <= radius).nonzero()[:, 0].tolist():
            number = int(nearest[graph])
            near, alignments = self.aligned[number]
            row = int((near == graph).nonzero()[0, 0])
            path = edit_path(self.patterns[number], self.population.graphs[graph], alignments, row)
            found.append(CoveredGraph(graph, number, float(best[graph]), path))
        return found
