"""Evaluate class explanations: the numbers in one row of the class table."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.classes.enumeration import EnumeratedGraphs
from bench.classes.methods import Answers
from bench.counterfactuals.instances import CPU
from bench.data.motifs import contains_motif, motif_of
from bench.report.paper_figures import CLASS_CONFIDENCE, CLASS_DENSITY
from d4explain.gnn.graphs import Graph, to_dense
from d4explain.gnn.network import Gnn, predict
from models.classes.node_features import ClassParts
from models.classes.regularisers import DegreeLimits
from models.graphs.isomorphism import isomorphism_classes
from models.metrics.mmd import mmd, statistics
from models.metrics.recurrence import SubgraphIndex
from models.metrics.scores import density, is_connected

_HELD_OUT_PARTS = 400  # sampled connected subgraphs of held-out class graphs
CONFIDENCE_SLACK = 0.005  # allowed difference to the paper's confidence
DENSITY_SLACK = 1.1  # allowed factor over the density of held-out class subgraphs
MOLECULES = ("bbbp", "mutag", "mutagenicity", "nci1")


@dataclass(frozen=True)
class ClassRow:
    """The figures of a saved row; provenance is added separately.

    Means over answers are weighted by share.
    """

    dataset: str
    label: int
    nodes: int
    method: str
    k: int | None
    t: int | None
    n: int  # answers; fewer than requested if a method avoids repeats
    confidence: float
    paper_confidence: float | None
    # Highest confidence of any connected graph of this size; None if too many to enumerate.
    possible_confidence: float | None
    # Class subgraphs whose features were tried; None if all features are equal.
    possible_parts: int | None
    possible_confidence_sparse: float | None  # highest mean confidence at the allowed density
    possible_unique: float | None  # largest `unique` at the paper's confidence
    density: float
    density_heldout: float
    paper_density: float | None
    connected: float
    valence_broken: float | None  # molecules only
    unique: float  # distinct answers / requested answers
    effective: float  # number of equally weighted answers with the same variety
    recurrence: float  # share of the answers that occur in a held-out graph of the class
    motif_rate: float | None  # None if there is no motif or it has more nodes
    motif_rate_random: float | None  # motif rate of held-out class subgraphs
    motif_rate_distinct: float | None  # motif rate of distinct held-out class subgraphs
    mmd_heldout: float
    mmd_floor: float  # held-out MMD of subgraphs of the class's reference graphs
    seconds: float  # CPU, per 100 explanations


class ClassEvaluator:
    """Evaluates answers for one class and size against held-out graphs."""

    def __init__(
        self,
        dataset: str,
        label: int,
        nodes: int,
        *,
        gnn: Gnn,
        reference: Sequence[Graph],
        held_out: Sequence[Graph],
        seed: int,
    ) -> None:
        self._dataset = dataset
        self._label = label
        self._nodes = nodes
        self._gnn = gnn
        self._held_out_index = SubgraphIndex(held_out)
        generator = torch.Generator().manual_seed(seed)
        self._parts = _parts(held_out, nodes, generator)
        self._density = _mean([density(graph) for graph in self._parts])
        self._statistics = statistics(self._parts)
        self._possible = EnumeratedGraphs.of(gnn, reference, label, nodes, seed)
        self._floor = statistics(_parts(reference, nodes, generator))
        self._limits = DegreeLimits.of(reference) if dataset in MOLECULES else None
        motif = motif_of(dataset, label)
        fits = motif is not None and motif.number_of_nodes() <= nodes
        self._motif = motif if fits else None

    def row(
        self,
        method: str,
        answers: Answers,
        *,
        requested: int,
        cpu_seconds: float,
        candidates: int | None = None,
        steps: int | None = None,
    ) -> ClassRow:
        graphs, shares = answers.graphs, torch.tensor(answers.shares, dtype=torch.float64)
        confidence = predict(self._gnn, graphs, CPU)[:, self._label]
        paper = CLASS_CONFIDENCE.get(self._dataset, {}).get(self._nodes)
        possible = self._possible
        most_edges = DENSITY_SLACK * self._density * self._nodes**2 / 2
        return ClassRow(
            dataset=self._dataset,
            label=self._label,
            nodes=self._nodes,
            method=method,
            k=candidates,
            t=steps,
            n=len(graphs),
            confidence=_mean(confidence.tolist(), shares),
            paper_confidence=paper,
            possible_confidence=None if possible is None else possible.best,
            possible_parts=None if possible is None else possible.parts,
            possible_confidence_sparse=None if possible is None else possible.best_with(most_edges),
            possible_unique=(
                None
                if possible is None or paper is None or possible.parts is not None
                else possible.count_with(paper - CONFIDENCE_SLACK) / requested
            ),
            density=_mean([density(graph) for graph in graphs], shares),
            density_heldout=self._density,
            paper_density=CLASS_DENSITY.get(self._dataset, {}).get(self._nodes),
            connected=_mean([is_connected(graph) for graph in graphs], shares),
            valence_broken=None
            if self._limits is None
            else _valence_broken(graphs, shares, self._limits),
            unique=distinct_count(graphs) / requested,
            effective=_effective(graphs, shares),
            recurrence=_mean([self._held_out_index.contain(graph) for graph in graphs], shares),
            motif_rate=self._motif_rate(graphs, shares),
            motif_rate_random=self._motif_rate(self._parts),
            motif_rate_distinct=self._motif_rate(_distinct(self._parts)),
            mmd_heldout=mmd(statistics(graphs), self._statistics, shares).sum,
            mmd_floor=mmd(self._floor, self._statistics).sum,
            seconds=100 * cpu_seconds / requested,
        )

    def _motif_rate(self, graphs: Sequence[Graph], shares: Tensor | None = None) -> float | None:
        motif = self._motif
        if motif is None:
            return None
        return _mean([contains_motif(graph, motif) for graph in graphs], shares)


def distinct_count(graphs: Sequence[Graph]) -> int:
    """Number of graphs up to isomorphism, features included."""
    return len(_distinct(graphs))


def _distinct(graphs: Sequence[Graph]) -> list[Graph]:
    return [graphs[first] for first in dict.fromkeys(isomorphism_classes(to_dense(graphs)))]


def _effective(graphs: Sequence[Graph], shares: Tensor) -> float:
    """1 / Σ share² over distinct graphs: as varied as this many equally weighted graphs."""
    total: dict[int, float] = {}
    for first, share in zip(isomorphism_classes(to_dense(graphs)), shares.tolist(), strict=True):
        total[first] = total.get(first, 0.0) + share
    return 1 / sum(share**2 for share in total.values())


def _valence_broken(graphs: Sequence[Graph], shares: Tensor, limits: DegreeLimits) -> float:
    return _mean((limits.excess(to_dense(graphs)) > 0).tolist(), shares)


def _parts(graphs: Sequence[Graph], nodes: int, generator: torch.Generator) -> list[Graph]:
    parts = ClassParts(graphs, generator)
    return [parts.draw(nodes) for _ in range(_HELD_OUT_PARTS)]


def _mean(values: Sequence[float | bool], shares: Tensor | None = None) -> float:
    weights = [1.0] * len(values) if shares is None else shares.tolist()
    return math.fsum(map(operator.mul, values, weights)) / math.fsum(weights)
