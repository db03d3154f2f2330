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
_TOLERANCE = 1e-8
_SETTINGS = ((1.0, 1.0), (0.01, 0.1), (1.0, 1.0))  # bin width and sigma of each statistic
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
    implementations: dict[str, Callable[[], MmdScore]] = {
        _OURS: lambda: mmd(statistics(ours), statistics(others)),
        _PLAIN: lambda: plain_mmd(networks[:GRAPHS], networks[GRAPHS:], scipy_distance),
        "the same with NumPy instead of SciPy": lambda: plain_mmd(
            networks[:GRAPHS], networks[GRAPHS:], numpy_distance
        ),
    }
    rounds = 1 if short else 2
    times: dict[str, list[float]] = {name: [] for name in implementations}
    scores: dict[str, MmdScore] = {}
    for done in range(rounds):
        on_progress("MMD", done, rounds)
        for name, compute in implementations.items():
            for _ in range(_REPETITIONS if name == _OURS else 1):
                started = time.process_time()
                scores[name] = compute()
                times[name].append(time.process_time() - started)
            require_equal(scores[_OURS], scores[name])
    on_progress("MMD", rounds, rounds)
    fastest = {name: min(seconds) for name, seconds in times.items()}
    nodes = sum(graph.node_count for graph in graphs) / len(graphs)
    table = Table(
        f"MMD of {GRAPHS} against {GRAPHS} BA-3Motif graphs, {nodes:.1f} nodes on average",
        ("implementation", "CPU ms", "times ours", "degree", "clustering", "spectrum"),
        tuple(
            (
                name,
                1000 * fastest[name],
                fastest[name] / fastest[_OURS],
                *(score.degree, score.clustering, score.spectrum),
            )
            for name, score in scores.items()
        ),
    )
    return Section(MmdFigures(fastest[_PLAIN] / fastest[_OURS]), (table,))


def plain_mmd(
    first: Sequence[nx.Graph], second: Sequence[nx.Graph], distance: Distance
) -> MmdScore:
    """MMD as defined in models/metrics/mmd.py, graph by graph and pair by pair."""
    xs, ys = list(map(histograms, first)), list(map(histograms, second))

    def mean_kernel(rows: list[Histograms], columns: list[Histograms], statistic: int) -> float:
        bin_width, sigma = _SETTINGS[statistic]
        total = 0.0
        for x in rows:
            for y in columns:
                emd = bin_width * distance(x[statistic], y[statistic])
                total += math.exp(-(emd**2) / (2 * sigma**2))
        return total / (len(rows) * len(columns))

    return MmdScore(
        *(
            mean_kernel(xs, xs, statistic)
            + mean_kernel(ys, ys, statistic)
            - 2 * mean_kernel(xs, ys, statistic)
            for statistic in range(len(_SETTINGS))
        )
    )


def scipy_distance(x: Histogram, y: Histogram) -> float:
    return float(wasserstein_distance(range(len(x)), range(len(y)), x, y))


def numpy_distance(x: Histogram, y: Histogram) -> float:
    """L1 distance of the cumulative histograms, padded to equal length."""
    if len(x) != len(y):
        width = max(len(x), len(y))
        x, y = (np.pad(histogram, (0, width - len(histogram))) for histogram in (x, y))
    return float(np.abs(np.cumsum(x - y)).sum())


def histograms(network: nx.Graph) -> Histograms:
    coefficients = list(nx.clustering(network).values())
    clustering, _ = np.histogram(coefficients, bins=100, range=(0.0, 1.0))
    # Rounding may put an eigenvalue of 2 outside the range.
    eigenvalues = np.minimum(nx.normalized_laplacian_spectrum(network), 2.0)
    spectrum, _ = np.histogram(eigenvalues, bins=200, range=(-1e-5, 2.0))
    counts = (np.array(nx.degree_histogram(network)), clustering, spectrum)
    return tuple(histogram / histogram.sum() for histogram in counts)


def require_equal(score: MmdScore, other: MmdScore) -> None:
    """Both implementations must compute the same score."""
    for name in ("degree", "clustering", "spectrum"):
        value, other_value = getattr(score, name), getattr(other, name)
        if not math.isclose(value, other_value, rel_tol=0, abs_tol=_TOLERANCE):
            raise ArithmeticError(f"MMD of {name} is {value}, but {other_value} in the plain loop.")


def to_networkx(graph: Graph) -> nx.Graph:
    network = nx.empty_graph(graph.node_count)
    network.add_edges_from(graph.edges.T.tolist())
    return network
