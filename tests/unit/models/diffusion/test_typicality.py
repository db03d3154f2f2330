"""Typicality: exact ranks, uniform on exchangeable graphs, and stored with the denoiser."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from d4explain.gnn.graphs import Graph, to_dense
from models.diffusion.denoiser import Denoiser, DenoiserShape
from models.diffusion.noise import NoiseLevel
from models.diffusion.typicality import (
    Calibration,
    NoTypicality,
    Typicality,
    calibrated,
    typicalities,
    typicality_scores,
)

torch.set_num_threads(1)

CPU = torch.device("cpu")


def rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_graph(nodes: int, seed: int, target: int | None = None) -> Graph:
    generator = rng(seed)
    upper = torch.triu(torch.rand(nodes, nodes, generator=generator) < 0.4, diagonal=1)
    return Graph(torch.randn(nodes, 2, generator=generator), upper.nonzero().T, target)


def random_denoiser(*, marked: bool = False) -> Denoiser:
    """With random values where a new one has zeros, which would make all graphs equally likely."""
    shape = DenoiserShape(features=2, hidden=6, blocks=2, marked=marked)
    denoiser = Denoiser(shape, rng(0)).eval()
    with torch.no_grad():
        denoiser.head_out.normal_(generator=rng(1))
    return denoiser


def calibration(scores: list[float], sizes: list[int]) -> Calibration:
    return Calibration(torch.tensor(scores), torch.tensor(sizes))


def value(figure: Typicality | NoTypicality) -> float:
    assert isinstance(figure, Typicality)
    return figure.value


def rank(known: Calibration, score: float, nodes: int) -> float:
    return float(known.rank(torch.tensor([score]), nodes))


@pytest.mark.parametrize(
    ("score", "no_likelier", "low"),
    [(-1.0, 0, True), (3.5, 4, True), (4.5, 5, False), (49.0, 50, False), (1000.0, 100, False)],
)
def test_typicality_is_the_rank_among_graphs_of_one_size(
    score: float, no_likelier: int, low: bool
) -> None:
    known = calibration([float(number) for number in range(100)], [10] * 100)
    typicality = Typicality(rank(known, score, 10), 100)
    assert typicality.value == pytest.approx((1 + no_likelier) / 101)
    assert typicality.low == low


def test_typicality_is_the_rank_of_the_score_for_its_size() -> None:
    """By hand, with NumPy: each graph is compared with the 30 others nearest in size."""
    generator = np.random.default_rng(3)
    sizes, scores = generator.integers(5, 60, 150), generator.normal(size=150)
    sizes[0], sizes[1] = 5, 59
    known = Calibration(torch.tensor(scores), torch.tensor(sizes))
    for nodes, score in ((5, -2.0), (20, 0.3), (33, -1.4), (59, 1.0)):
        everyone, counts = np.append(scores, score), np.append(sizes, nodes)
        standard = []
        for graph in range(151):
            others = [other for other in range(151) if other != graph]
            distance = {other: abs(int(counts[other]) - int(counts[graph])) for other in others}
            farthest = sorted(distance.values())[29]
            near = everyone[[other for other in others if distance[other] <= farthest]]
            standard.append((everyone[graph] - near.mean()) / near.std())
        expected = sum(other <= standard[-1] + 1e-3 for other in standard) / 151
        assert rank(known, score, nodes) == pytest.approx(expected)


def test_graphs_are_ranked_independently_of_each_other() -> None:
    generator = rng(0)
    known = Calibration(torch.randn(120, generator=generator), torch.arange(120) % 20 + 5)
    scores = torch.randn(8, generator=generator)
    together = known.rank(scores, 9)
    assert together.tolist() == [rank(known, score, 9) for score in scores.tolist()]


def test_too_few_calibration_graphs_give_no_figure() -> None:
    fault = calibration([0.0] * 99, [10] * 99).fault(10)
    assert fault is not None
    assert "99 calibration graphs" in fault.reason
    assert calibration([0.0] * 100, [10] * 100).fault(10) is None


@pytest.mark.parametrize("nodes", [9, 41])
def test_a_size_outside_the_calibration_gives_no_figure(nodes: int) -> None:
    known = calibration([0.0] * 100, [10, 40] * 50)
    assert known.fault(10) is None
    assert known.fault(40) is None
    fault = known.fault(nodes)
    assert fault is not None
    assert f"10 to 40 nodes, the graph has {nodes}" in fault.reason


@given(seed=st.integers(0, 10_000), trend=st.floats(-1, 1))
@settings(max_examples=15, deadline=None)
def test_each_of_exchangeable_graphs_has_another_rank(seed: int, trend: float) -> None:
    """Whichever of 121 graphs is the new one, so the typicality of a new graph is uniform."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(10, 60, 121)
    scores = generator.normal(trend * sizes, 1 + sizes / 20)
    ranks = leave_one_out(scores, sizes)
    # Standard scores closer than the tolerance share a rank, so a few ranks are too high.
    excess = np.sort(ranks) - np.arange(1, 122) / 121
    assert excess.min() >= -1e-9
    assert excess.max() <= 3.001 / 121
    assert np.mean(excess > 1e-9) <= 0.1


@given(scores=st.lists(st.integers(0, 8), min_size=101, max_size=101))
@settings(max_examples=15, deadline=None)
def test_with_ties_a_typicality_up_to_v_has_at_most_probability_v(scores: list[int]) -> None:
    ranks = leave_one_out(np.array(scores, dtype=float), np.full(101, 10))
    for one in ranks:
        assert np.mean(ranks <= one + 1e-9) <= one + 1e-9


def leave_one_out(scores: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The typicality of each graph if all others calibrate it."""
    ranks = []
    for new in range(len(scores)):
        known = Calibration(
            torch.tensor(np.delete(scores, new)), torch.tensor(np.delete(sizes, new))
        )
        ranks.append(rank(known, float(scores[new]), int(sizes[new])))
    return np.array(ranks)


def test_typicality_is_uniform_if_likelihood_depends_on_size() -> None:
    generator = np.random.default_rng(0)
    values = []
    for _ in range(400):
        sizes = generator.integers(10, 40, 201)
        scores = torch.tensor(generator.normal(-0.2 * sizes, 1.0))
        known = Calibration(scores[1:], torch.tensor(sizes[1:]))
        if known.fault(int(sizes[0])) is None:
            values.append(rank(known, float(scores[0]), int(sizes[0])))
    spread = np.array(values) - generator.uniform(0, 1 / 201, len(values))
    assert len(values) > 350
    assert kstest(spread, "uniform").pvalue > 0.01


@given(nodes=st.integers(2, 9), seed=st.integers(0, 10_000), marked=st.booleans())
@settings(max_examples=40, deadline=None)
def test_the_score_ignores_the_order_of_the_nodes(nodes: int, seed: int, marked: bool) -> None:
    denoiser = random_denoiser(marked=marked)
    graph = random_graph(nodes, seed, target=0 if marked else None)
    order = torch.randperm(nodes, generator=rng(seed))  # new place → old place
    place = order.argsort()
    reordered = Graph(
        graph.features[order],
        place[graph.edges].sort(dim=0).values,
        int(place[0]) if marked else None,
    )
    before, after = typicality_scores(denoiser, [graph, reordered], CPU).tolist()
    assert before == pytest.approx(after, abs=1e-4)


def test_the_score_is_the_log_likelihood_of_the_least_likely_node() -> None:
    denoiser = random_denoiser()
    graphs = [random_graph(nodes, nodes) for nodes in (9, 3, 6, 2)]  # one padded batch
    scores = typicality_scores(denoiser, graphs, CPU).tolist()
    for graph, score in zip(graphs, scores, strict=True):
        alone = to_dense([graph])
        noise = NoiseLevel.symmetric(torch.tensor([denoiser.shape.clean_flip]))
        with torch.no_grad():
            log_odds = denoiser.edge_log_odds(alone, noise)[0].tolist()
        edges = {frozenset(edge) for edge in graph.edges.T.tolist()}
        per_node = []
        for one in range(graph.node_count):
            likelihoods = []
            for other in range(graph.node_count):
                if one != other:
                    edge = 1 / (1 + math.exp(-log_odds[one][other]))
                    likelihoods.append(edge if frozenset((one, other)) in edges else 1 - edge)
            per_node.append(sum(map(math.log, likelihoods)))
        assert score == pytest.approx(min(per_node), rel=1e-4)


def held_out() -> list[Graph]:
    return [random_graph(4 + index % 5, index) for index in range(120)]


def stored(denoiser: Denoiser) -> Denoiser:
    """Written to and read from an artifact, as the worker does."""
    shape = json.dumps(asdict(denoiser.shape))
    data = safetensors.torch.save(denoiser.state_dict())
    loaded = Denoiser(DenoiserShape(**json.loads(shape)))
    loaded.load_state_dict(safetensors.torch.load(data))
    return loaded.eval()


def test_the_calibration_is_stored_with_the_denoiser() -> None:
    denoiser = calibrated(random_denoiser(), held_out(), CPU)
    assert not denoiser.training
    assert denoiser.shape.calibration_graphs == 120
    asked = [random_graph(6, 1000 + seed) for seed in range(20)]
    before = typicalities(denoiser, asked, CPU)
    assert typicalities(stored(denoiser), asked, CPU) == before
    known = calibration(
        typicality_scores(denoiser, held_out(), CPU).tolist(),
        [graph.node_count for graph in held_out()],
    )
    own = typicality_scores(denoiser, asked, CPU).tolist()
    assert len({value(figure) for figure in before}) > 5
    for score, figure in zip(own, before, strict=True):
        assert value(figure) == rank(known, score, 6)


def test_a_graph_of_another_size_has_no_figure_and_the_others_keep_theirs() -> None:
    denoiser = calibrated(random_denoiser(), held_out(), CPU)
    small, large = random_graph(6, 7), random_graph(9, 8)
    first, none, second = typicalities(denoiser, [small, large, small], CPU)
    assert isinstance(none, NoTypicality)
    assert value(first) == value(second) == value(typicalities(denoiser, [small], CPU)[0])


def test_a_denoiser_of_an_earlier_version_loads_and_has_no_figure() -> None:
    shape = asdict(random_denoiser().shape)
    del shape["calibration_graphs"]  # earlier versions stored shapes without it
    old = Denoiser(DenoiserShape(**shape))
    old.load_state_dict(random_denoiser().state_dict())
    (figure,) = typicalities(old.eval(), [random_graph(5, 0)], CPU)
    assert isinstance(figure, NoTypicality)
    assert "0 calibration graphs" in figure.reason


def test_calibration_leaves_the_denoiser_as_it_was() -> None:
    plain = random_denoiser()
    denoiser = calibrated(plain, held_out(), CPU)
    graphs = to_dense([random_graph(6, 3)])
    assert torch.equal(denoiser.read(graphs).plausibility, plain.read(graphs).plausibility)
    assert calibrated(plain, [], CPU) is plain
