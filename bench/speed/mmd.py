"""Compare the speed of our MMD with a plain loop over graphs and pairs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import torch
from scipy.stats import wasserstein_distance

from bench.data.synthetic import ba3motif
from bench.progress import OnProgress
from bench.speed.section import Figures, Section, Table
from d4explain.gnn.graphs import Graph
from models.metrics.mmd import MmdScore, mmd, statistics

GRAPHS = 200  # in each of the two sets
_EQUAL = 1e-8
_SETTINGS = (
    (1.0, 1.0),
    (0.01, 0.1),
    (1.0, 1.0),
)  # bin width and sigma of the MMD

_REPETITIONS = 5  # of ours, because a single run is too short to time
_OURS = "`models.metrics.mmd`"
_PLAIN = "NetworkX and SciPy, pair by pair"

Histogram = np.ndarray[Any, Any]
Histograms = tuple[Histogram, ...]  # degree, clustering, spectrum
Distance = Callable[[Histogram, Histogram], float]


@dataclass(frozen=True)
class MmdFigures(Figures):
    mmd_speedup: float


def measure(short: bool, seed: int, on_progress: OnProgress) -> Section[MmdFigures]:
    generator = torch.Generator().manual_seed(seed)
    graphs = ba3motif(2 * GRAPHS, generator).graphs
    ours, others = graphs[:GRAPHS], graphs[GRAPHS:]
    networks = [to_networkx(graph) for graph in graphs]
    ways: dict[str, Callable[[], MmdScore]] = {
        _OURS: lambda: mmd(statistics(ours), statistics(others)),
        _PLAIN: lambda: plain_mmd(networks[:GRAPHS], networks[GRAPHS:], scipy_distance),
        "the same with NumPy instead of SciPy": lambda: plain_mmd(
            networks[:GRAPHS], networks[GRAPHS:], numpy_distance
        ),
    }
    rounds = 1 if short else 2
    times: dict[str, list[float]] = {way: [] for way in ways}
    scores: dict[str, MmdScore] = {}
    for done in range(rounds):
        on_progress("MMD", done, rounds)
        for way, call in ways.items():
            for _ in range(_REPETITIONS if way == _OURS else 1):
                started = time.process_time()
                scores[way] = call()
                times[way].append(time.process_time() - started)
            require_equal(scores[_OURS], scores[way])
    on_progress("MMD", rounds, rounds)
    quickest = {way: min(some) for way, some in times.items()}
    nodes = sum(graph.node_count for graph in graphs) / len(graphs)
    table = Table(
        f"MMD of {GRAPHS} against {GRAPHS} BA-3Motif graphs, {nodes:.1f} nodes on average",
        ("way", "CPU ms", "over ours", "degree", "clustering", "spectrum"),
        tuple(
            (
                way,
                1000 * quickest[way],
                quickest[way] / quickest[_OURS],
                *(one.degree, one.clustering, one.spectrum),
            )
            for way, one in scores.items()
        ),
    )
    return Section(MmdFigures(quickest[_PLAIN] / quickest[_OURS]), (table,))


def plain_mmd(some: Sequence[nx.Graph], others: Sequence[nx.Graph], distance: Distance) -> MmdScore:
    """MMD as defined in models/metrics/mmd.py, graph by graph and pair by pair."""
    ours, theirs = list(map(histograms, some)), list(map(histograms, others))

    def mean_kernel(one: list[Histograms], two: list[Histograms], part: int) -> float:
        bin_width, sigma = _SETTINGS[part]
        total = 0.0
        for x in one:
            for y in two:
                apart = bin_width * distance(x[part], y[part])
                total += math.exp(-(apart**2) / (2 * sigma**2))
        return total / (len(one) * len(two))

    return MmdScore(
        *(
            mean_kernel(ours, ours, part)
            + mean_kernel(theirs, theirs, part)
            - 2 * mean_kernel(ours, theirs, part)
            for part in range(len(_SETTINGS))
        )
    )


def scipy_distance(x: Histogram, y: Histogram) -> float:
    return float(wasserstein_distance(range(len(x)), range(len(y)), x, y))


def numpy_distance(x: Histogram, y: Histogram) -> float:
    """L1 distance of the cumulative histograms, padded to equal length."""
    if len(x) != len(y):
        width = max(len(x), len(y))
        x, y = (np.pad(one, (0, width - len(one))) for one in (x, y))
    return float(np.abs(np.cumsum(x - y)).sum())


def histograms(network: nx.Graph) -> Histograms:
    coefficients = list(nx.clustering(network).values())
    clustering, _ = np.histogram(coefficients, bins=100, range=(0.0, 1.0))
    # Rounding may put an eigenvalue of 2 outside the range.
    eigenvalues = np.minimum(nx.normalized_laplacian_spectrum(network), 2.0)
    spectrum, _ = np.histogram(eigenvalues, bins=200, range=(-1e-5, 2.0))
    counts = (np.array(nx.degree_histogram(network)), clustering, spectrum)
    return tuple(one / one.sum() for one in counts)


def require_equal(score: MmdScore, other: MmdScore) -> None:
    """Both implementations must compute the same score."""
    for name in ("degree", "clustering", "spectrum"):
        one, two = getattr(score, name), getattr(other, name)
        if not math.isclose(one, two, rel_tol=0, abs_tol=_EQUAL):
            raise ArithmeticError(f"MMD of {name} is {one}, but {two} in the plain loop")


def to_networkx(graph: Graph) -> nx.Graph:
    network = nx.empty_graph(graph.node_count)
    network.add_edges_from(graph.edges.T.tolist())
    return network
