"""The choice of answers: its objective against the MMD itself, and what is left out."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from d4explain.gnn.graphs import Graph, from_dense, to_dense
from models.classes.selection import (
    TARGET_LOG_CONFIDENCE,
    Pool,
    SelectedGraphs,
    _draw_with_repetition,
    _eligible,
    _Objective,
    _select_greedily,
    distinct,
    select_graphs,
)
from models.metrics.mmd import kernels_between, mmd, statistics

torch.set_num_threads(1)


def graph_of(network: nx.Graph) -> Graph:
    edges = torch.tensor(sorted(sorted(edge) for edge in network.edges), dtype=torch.int64)
    return Graph(torch.ones(network.number_of_nodes(), 1), edges.view(-1, 2).T.contiguous())


def random_graphs(count: int, seed: int, density: float = 0.5) -> list[Graph]:
    return [
        graph_of(nx.gnp_random_graph(6, density, seed=100 * seed + place)) for place in range(count)
    ]


TREES = [graph_of(tree) for tree in nx.nonisomorphic_trees(6)]  # six of them
CLIQUES = [graph_of(nx.lollipop_graph(size, 6 - size)) for size in (4, 5, 6)]


RANDOM = [graph_of(nx.gnp_random_graph(6, 0.5, seed=seed)) for seed in range(40)]


def pool_of(
    graphs: list[Graph],
    confidence: list[float],
    regulariser_scores: list[float] | None = None,
    faults: list[float] | None = None,
) -> Pool:
    log_confidence = torch.tensor(confidence).log()
    met = (
        torch.zeros(len(graphs)) if regulariser_scores is None else torch.tensor(regulariser_scores)
    )
    scores = log_confidence.clamp(max=TARGET_LOG_CONFIDENCE) + met
    none = torch.zeros(len(graphs))
    wrong = none if faults is None else torch.tensor(faults)
    return Pool(to_dense(graphs), log_confidence, none, scores, wrong)


def edge_counts(selected: SelectedGraphs) -> list[int]:
    return [graph.edge_count for graph in from_dense(selected.pool.graphs)]


class Herding:
    """A few random graphs with random costs and confidences, and the objective by the MMD."""

    def __init__(self, seed: int, count: int) -> None:
        self.own = random_graphs(count, seed)
        generator = torch.Generator().manual_seed(seed)
        self.costs = torch.rand(count, generator=generator, dtype=torch.float64)
        noise = torch.randn(count, generator=generator, dtype=torch.float64)
        self.log_confidence = (TARGET_LOG_CONFIDENCE - 1e-3 * noise).float().double()
        self.target = statistics(random_graphs(5, seed + 51, 0.3))
        self.statistics = statistics(self.own)
        pool = pool_of(self.own, [0.5] * count)
        pool = replace(pool, log_confidence=self.log_confidence)
        self.terms = _Objective.of(
            self.statistics, self.target, pool, self.costs, TARGET_LOG_CONFIDENCE
        )

    def distance(self, places: list[int]) -> float:
        confidence_gap = max(0.0, TARGET_LOG_CONFIDENCE - float(self.log_confidence[places].mean()))
        drawn = statistics([self.own[place] for place in places])
        return mmd(drawn, self.target).sum + 1_000 * confidence_gap

    def objective(self, places: list[int]) -> float:
        return self.distance(places) + float(self.costs[places].mean())


@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=st.integers(0, 50), count=st.integers(2, 6))
def test_each_addition_is_the_best_one_by_the_mmd_itself(seed: int, count: int) -> None:
    herding = Herding(seed, count)
    selected_set = _select_greedily(herding.statistics, herding.terms, count)
    order = selected_set.order
    assert sorted(order) == list(range(count))
    for size, distance in enumerate(selected_set.distances, start=1):
        assert distance == pytest.approx(herding.distance(order[:size]), abs=1e-9)
        before, left = order[: size - 1], order[size - 1 :]
        least = min(herding.objective([*before, place]) for place in left)
        assert herding.objective(order[:size]) <= least + 1e-9


@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=st.integers(0, 50), count=st.integers(1, 5), draws=st.integers(1, 12))
def test_each_repetition_is_the_best_one_by_the_mmd_itself(
    seed: int, count: int, draws: int
) -> None:
    herding = Herding(seed, count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("models.classes.selection._DRAWS", draws)
        patch.setattr("models.classes.selection._DRAWS_PER_ANSWER", 1)
        selected_set = _draw_with_repetition(herding.statistics.kernels.sum, herding.terms)
    places = list(range(count))
    while len(places) < draws:
        places.append(min(range(count), key=lambda one: (herding.objective([*places, one]), one)))
    assert selected_set.times.tolist() == [places.count(place) for place in range(count)]
    assert selected_set.size == max(count, draws)
    assert selected_set.distances[-1] == pytest.approx(herding.distance(places), abs=1e-9)


def test_many_answers_have_more_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.classes.selection._DRAWS", 8)
    herding = Herding(0, 5)
    assert _draw_with_repetition(herding.statistics.kernels.sum, herding.terms).size == 20


@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=st.integers(0, 200), count=st.integers(1, 9))
def test_shares_are_positive_and_add_up_to_one(seed: int, count: int) -> None:
    own = list(random_graphs(9, seed))
    selected = select_graphs(distinct_pool(own), random_graphs(5, seed + 1, 0.3), RANDOM, count)
    assert 1 <= selected.pool.graphs.count == len(selected.shares) <= count
    assert float(selected.shares.sum()) == pytest.approx(1)
    assert float(selected.shares.min()) >= 1 / 400 - 1e-9


def distinct_pool(graphs: list[Graph]) -> Pool:
    different = from_dense(distinct(to_dense(graphs)))
    return pool_of(different, [0.999] * len(different))


def test_the_most_typical_graph_has_the_largest_share() -> None:
    parts = [TREES[0]] * 6 + [TREES[3]] * 3 + [TREES[5]]
    selected = select_graphs(pool_of(TREES, [0.999] * 6), parts, RANDOM, 6)
    share = dict(zip(edges_of(selected.pool), selected.shares.tolist(), strict=True))
    own = {place: share[edges_of(pool_of([TREES[place]], [0.999]))[0]] for place in (0, 3, 5)}
    assert own[0] == pytest.approx(0.6, abs=0.02)
    assert own[3] == pytest.approx(0.3, abs=0.02)
    assert own[5] == pytest.approx(0.1, abs=0.02)


def edges_of(pool: Pool) -> list[str]:
    return [str(graph.edges.tolist()) for graph in from_dense(pool.graphs)]


def test_regularisers_decide_the_shares_of_similar_graphs() -> None:
    twin = replace(TREES[0], features=torch.full((6, 1), 2.0))
    regulariser_scores = [0.0, 1.0] + [0.0] * 5
    selected = select_graphs(
        pool_of([TREES[0], twin, *TREES[1:]], [0.999] * 7, regulariser_scores), TREES, RANDOM, 7
    )
    graphs = from_dense(selected.pool.graphs)
    wished = next(place for place, one in enumerate(graphs) if float(one.features[0, 0]) == 2.0)
    other = edges_of(selected.pool).index(str(TREES[0].edges.tolist()), 0)
    if other == wished:
        other = edges_of(selected.pool).index(str(TREES[0].edges.tolist()), wished + 1)
    assert float(selected.shares[wished]) > float(selected.shares[other])


def test_kernel_sums_add_up_to_the_mmd() -> None:
    some, others = statistics(random_graphs(4, 1)), statistics(random_graphs(3, 2))
    terms = [
        kernels_between(*pair).sum.mean()
        for pair in ((some, some), (others, others), (some, others))
    ]
    assert float(terms[0] + terms[1] - 2 * terms[2]) == pytest.approx(mmd(some, others).sum)


def test_confident_graphs_unlike_the_class_are_omitted() -> None:
    found = select_graphs(pool_of(CLIQUES + TREES, [0.999] * 9), TREES, RANDOM, 9)
    assert edge_counts(found)[:6] == [5] * 6  # the trees, all of them
    assert max(edge_counts(found)) < CLIQUES[1].edge_count  # of cliques at most the smallest
    alone = select_graphs(pool_of(CLIQUES, [0.999] * 3), TREES, RANDOM, 9)
    assert len(edge_counts(alone)) >= 1  # where there is nothing better, there is an answer


def test_low_confidence_outweighs_similarity_but_not_above_the_target() -> None:
    doubtful = select_graphs(pool_of(CLIQUES[:1] + TREES[:1], [0.999, 0.92]), TREES, RANDOM, 1)
    assert edge_counts(doubtful) == [CLIQUES[0].edge_count]
    sure = select_graphs(pool_of(CLIQUES[:1] + TREES[:1], [0.9999, 0.996]), TREES, RANDOM, 1)
    assert edge_counts(sure) == [5]


def test_a_typical_graph_may_be_less_confident_than_others() -> None:
    doubtful = 0.985
    among_surer = select_graphs(pool_of(TREES, [0.9999] * 5 + [doubtful]), TREES, RANDOM, 6)
    assert among_surer.pool.graphs.count == 6
    assert (
        float(among_surer.shares.double() @ among_surer.pool.log_confidence.double())
        >= TARGET_LOG_CONFIDENCE
    )
    among_as_sure = select_graphs(pool_of(TREES, [0.9951] * 5 + [doubtful]), TREES, RANDOM, 6)
    assert float(among_as_sure.pool.log_confidence.exp().min()) > doubtful
    far_below = select_graphs(pool_of(TREES, [0.9999] * 5 + [0.5]), TREES, RANDOM, 6)
    assert float(far_below.pool.log_confidence.exp().min()) > 0.5


def test_answers_of_an_unconfident_gnn_are_near_its_most_confident_graph() -> None:
    unsure = select_graphs(pool_of(TREES, [0.95] + [0.947] * 5), TREES, RANDOM, 6)
    assert unsure.pool.graphs.count == 6
    doubtful = select_graphs(pool_of(TREES, [0.95] + [0.9] * 5), TREES, RANDOM, 6)
    mean = float(doubtful.shares.double() @ doubtful.pool.log_confidence.double())
    assert mean >= float(torch.tensor(0.95).log()) - 0.006


def test_graphs_with_more_faults_are_not_eligible() -> None:
    found = select_graphs(pool_of(TREES, [0.999] * 6, faults=[0.0] * 5 + [2.0]), TREES, RANDOM, 6)
    assert found.pool.graphs.count == 5  # 2 nats, as a second component costs
    everywhere = select_graphs(pool_of(TREES, [0.999] * 6, faults=[2.0] * 6), TREES, RANDOM, 6)
    assert everywhere.pool.graphs.count == 6  # where nothing better is there


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1_000), liked=st.integers(0, 300))
def test_better_scores_of_others_do_not_make_a_graph_ineligible(seed: int, liked: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    confidence = (0.5 + 0.5 * torch.rand(6, generator=generator)).tolist()
    few = pool_of(TREES, confidence)
    best = max(confidence)
    more = pool_of(
        TREES + [CLIQUES[0]] * liked, confidence + [best] * liked, [0.0] * 6 + [5.0] * liked
    )
    assert [place for place in _eligible(more).tolist() if place < 6] == _eligible(few).tolist()


def test_too_many_eligible_graphs_are_thinned_out_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.classes.selection._MAX_ELIGIBLE", 3)
    assert _eligible(pool_of(TREES[:5], [0.999] * 5)).tolist() == [0, 2, 4]


def test_the_number_of_answers_depends_on_the_distance_of_random_graphs() -> None:
    pool = pool_of(TREES + CLIQUES, [0.999] * 9)
    near = select_graphs(pool, TREES, TREES, 9).pool.graphs.count
    far = select_graphs(pool, TREES, [graph_of(nx.complete_graph(6))], 9).pool.graphs.count
    assert near < far


def test_there_are_at_most_as_many_answers_as_requested() -> None:
    assert select_graphs(pool_of(TREES, [0.999] * 6), TREES, RANDOM, 4).pool.graphs.count == 4


def test_of_isomorphic_graphs_the_first_is_kept() -> None:
    turned = graph_of(nx.relabel_nodes(nx.path_graph(6), {0: 5, 5: 0, 1: 3, 3: 1}))
    path = graph_of(nx.path_graph(6))
    kept = from_dense(distinct(to_dense([turned, CLIQUES[0], path])))
    assert [graph.edges.tolist() for graph in kept] == [
        graph.edges.tolist() for graph in (turned, CLIQUES[0])
    ]


def test_sizes_are_compared_by_their_best_graphs() -> None:
    pool = pool_of([*TREES[:3], graph_of(nx.path_graph(4))], [0.9, 0.5, 0.1, 0.2])
    expected = (torch.tensor(0.9).log() + torch.tensor(0.5).log()) / 2
    assert pool.mean_best(6, 2) == pytest.approx(float(expected))
    assert pool.mean_best(4, 2) == pytest.approx(float(torch.tensor(0.2).log()))
    assert pool.mean_best(5, 2) == float("-inf")
