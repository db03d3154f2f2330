"""Class explanations with tiny networks: confidence, size, features, seeds, regularisers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import networkx as nx
import pytest
import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph, to_dense, to_sparse
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import ActivationLayer, GinLayer, GnnSpec, LinearLayer, PoolLayer
from models.classes.explain import ClassConfig, ClassGraph, explain_class
from models.classes.node_features import ClassParts
from models.classes.regularisers import (
    DEFAULT_WEIGHTS,
    Candidates,
    Connectivity,
    DegreeLimits,
    Likelihood,
    Recurrence,
    ReferenceShape,
    Size,
    Sparsity,
    Valence,
    faults_of,
    regularised,
    regularisers_for,
)
from models.classes.reverse_sampling import ChainConfig, Chains
from models.diffusion.denoiser import Denoiser, DenoiserShape
from models.errors import NoReferenceGraphsError, UnknownClassError
from models.graphs.isomorphism import graph_codes

torch.set_num_threads(1)

CPU = torch.device("cpu")
FEATURES = 2
LAYERS = (GinLayer(6, 6), ActivationLayer("tanh"), GinLayer(6, 6), PoolLayer("sum"), LinearLayer(2))
SMALL = {"chains": 4, "candidates": 6, "steps": 6}


def erdos_renyi(seed: int, nodes: int, density: float) -> Graph:
    rng = torch.Generator().manual_seed(seed)
    edges = torch.triu(torch.rand(nodes, nodes, generator=rng) < density, diagonal=1).nonzero().T
    return Graph(torch.randn(nodes, FEATURES, generator=rng), edges.contiguous())


REFERENCE = [erdos_renyi(seed, 9 + seed % 3, 0.35) for seed in range(12)]


def a_gnn(seed: int = 0, graphs: list[Graph] | None = None) -> Gnn:
    """Random weights, with both classes equally likely on random graphs and far apart."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        gnn = Gnn(GnnSpec(FEATURES, 2, LAYERS)).eval()
    last = gnn.layers[-1].linear
    with torch.no_grad():
        logits = gnn(to_sparse(graphs or [erdos_renyi(draw, 7, 0.5) for draw in range(64)]))
        margin = logits[:, 1] - logits[:, 0]
        last.weight.mul_(4 / margin.std())
        last.bias.mul_(4 / margin.std())
        last.bias[1] -= margin.mean() * 4 / margin.std()
    return gnn


def a_denoiser(seed: int = 0) -> Denoiser:
    rng = torch.Generator().manual_seed(seed)
    denoiser = Denoiser(DenoiserShape(FEATURES, hidden=8, blocks=2), rng)
    with torch.no_grad():  # a new denoiser says nothing before it is trained
        denoiser.head_out.copy_(0.3 * torch.randn(denoiser.head_out.shape, generator=rng))
    return denoiser.eval()


def run(config: ClassConfig, seed: int = 0, gnn: Gnn | None = None) -> list[ClassGraph]:
    return explain_class(gnn or a_gnn(), a_denoiser(), REFERENCE, config, seed=seed, device=CPU)


def networkx_of(graph: Graph) -> nx.Graph:
    result = nx.Graph()
    result.add_nodes_from((node, {"x": row}) for node, row in enumerate(graph.features.tolist()))
    result.add_edges_from(graph.edges.T.tolist())
    return result


@pytest.mark.parametrize("sampler", ["guided", "paper"])
@pytest.mark.parametrize("target", [0, 1])
def test_explanations_are_more_confident_than_random_graphs(sampler: str, target: int) -> None:
    # all nodes alike, so that only the edges count
    reference = [Graph(torch.ones_like(graph.features), graph.edges) for graph in REFERENCE]
    by_chance = [
        Graph(torch.ones(7, FEATURES), erdos_renyi(seed, 7, 0.5).edges) for seed in range(100)
    ]
    gnn = a_gnn(target, by_chance)
    config = ClassConfig(target, nodes=7, sampler=sampler, chains=8, candidates=10, steps=8)  # type: ignore[arg-type]
    found = explain_class(gnn, a_denoiser(), reference, config, seed=0, device=CPU)
    confidence = torch.stack([answer.probabilities[target] for answer in found]).mean()
    assert confidence > predict(gnn, by_chance, CPU)[:, target].mean() + 0.2


@pytest.mark.parametrize("sampler", ["guided", "paper"])
def test_answers_are_correct_and_ranked(sampler: str) -> None:
    gnn = a_gnn()
    found = run(ClassConfig(1, nodes=6, sampler=sampler, **SMALL), gnn=gnn)  # type: ignore[arg-type]
    assert 1 <= len(found) <= SMALL["chains"]
    ranks = [(graph.share or 0, float(graph.probabilities[1])) for graph in found]
    assert ranks == sorted(ranks, reverse=True)
    shares = [graph.share for graph in found if graph.share is not None]
    if sampler == "paper":
        assert not shares
    else:
        assert len(shares) == len(found)
        assert sum(shares) == pytest.approx(1)
    known = {tuple(row) for graph in REFERENCE for row in graph.features.tolist()}
    for answer in found:
        assert answer.graph.node_count == 6
        assert {tuple(row) for row in answer.graph.features.tolist()} <= known
        with torch.no_grad():
            expected = gnn(to_sparse([answer.graph])).softmax(dim=1)[0]
        torch.testing.assert_close(answer.probabilities, expected)
        assert answer.connected == nx.is_connected(networkx_of(answer.graph))
        assert answer.likelihood < 0
    for one, other in combinations(found, 2):
        assert not nx.is_isomorphic(
            networkx_of(one.graph),
            networkx_of(other.graph),
            node_match=lambda a, b: a["x"] == b["x"],
        )


def _summary(found: list[ClassGraph]) -> list[object]:
    return [
        (answer.graph.edges.tolist(), answer.graph.features.tolist(), answer.likelihood)
        for answer in found
    ]


def test_the_seed_alone_decides_the_answers() -> None:
    config = ClassConfig(0, **SMALL)  # type: ignore[arg-type]
    torch.manual_seed(1)
    global_state = torch.get_rng_state()
    first = run(config, seed=3)
    assert torch.equal(torch.get_rng_state(), global_state)
    torch.manual_seed(2)
    assert _summary(run(config, seed=3)) == _summary(first)
    assert _summary(run(config, seed=4)) != _summary(first)


def test_sizes_come_from_the_connected_parts_of_the_reference() -> None:
    config = ClassConfig(0, **SMALL)  # type: ignore[arg-type]

    def sizes(reference: list[Graph]) -> set[int]:
        found = explain_class(a_gnn(), a_denoiser(), reference, config, seed=0, device=CPU)
        return {answer.graph.node_count for answer in found}

    assert sizes(REFERENCE) <= set(range(5, 11))  # 9 to 11 nodes
    assert sizes([erdos_renyi(seed, 4, 1.0) for seed in range(5)]) <= {2, 3, 4}
    assert sizes([erdos_renyi(seed, 1, 0.0) for seed in range(5)]) == {1}
    assert max(sizes([erdos_renyi(seed, 40, 0.2) for seed in range(5)])) <= 12
    # three triangles side by side: nothing connected has more than three nodes
    triangles = torch.tensor([[0, 0, 1, 3, 3, 4, 6, 6, 7], [1, 2, 2, 4, 5, 5, 7, 8, 8]])
    assert sizes([Graph(graph.features[:9], triangles) for graph in REFERENCE]) <= {2, 3}


def test_more_nodes_than_any_reference_graph_has_are_possible() -> None:
    found = run(ClassConfig(0, nodes=20, **SMALL))  # type: ignore[arg-type]
    assert all(answer.graph.node_count == 20 for answer in found)


def test_invalid_requests_are_refused() -> None:
    with pytest.raises(NoReferenceGraphsError, match="class 0"):
        explain_class(a_gnn(), a_denoiser(), [], ClassConfig(0), seed=0, device=CPU)
    with pytest.raises(UnknownClassError, match="class 2"):
        run(ClassConfig(2))
    for wrong in ({"chains": 0}, {"candidates": 0}, {"steps": 0}, {"nodes": 0}):
        with pytest.raises(ValueError, match="got"):
            ClassConfig(0, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sampler"):
        ClassConfig(0, sampler="other")  # type: ignore[arg-type]


@pytest.mark.parametrize("nodes", [None, 6])
def test_progress_counts_up_to_its_total(nodes: int | None) -> None:
    seen: list[tuple[int, int]] = []
    explain_class(
        a_gnn(),
        a_denoiser(),
        REFERENCE,
        ClassConfig(0, nodes=nodes, **SMALL),  # type: ignore[arg-type]
        seed=0,
        device=CPU,
        on_step=lambda step, steps: seen.append((step, steps)),
    )
    total = seen[-1][1]
    assert seen == [(step, total) for step in range(1, total + 1)]


@pytest.mark.parametrize(("asked", "found_any"), [(0, False), (1, True), (7, True)])
def test_a_stopped_run_returns_the_best_so_far(asked: int, found_any: bool) -> None:
    left = iter(range(asked))
    found = explain_class(
        a_gnn(),
        a_denoiser(),
        REFERENCE,
        ClassConfig(0, **SMALL),  # type: ignore[arg-type]
        seed=0,
        device=CPU,
        should_stop=lambda: next(left, None) is None,
    )
    assert bool(found) == found_any
    assert len(found) <= SMALL["chains"]


def test_chains_of_the_paper_sampler_may_return_isomorphic_graphs() -> None:
    few_nodes = ClassConfig(0, nodes=2, sampler="paper", repeats=True, **SMALL)  # type: ignore[arg-type]
    reference = [Graph(torch.ones_like(graph.features), graph.edges) for graph in REFERENCE]
    found = explain_class(a_gnn(), a_denoiser(), reference, few_nodes, seed=0, device=CPU)
    assert len(found) == SMALL["chains"]  # though there are but two such graphs
    with pytest.raises(ValueError, match="got 'guided'"):
        ClassConfig(0, repeats=True)


@dataclass(frozen=True)
class FewEdges:
    weight: float

    def score(self, candidates: Candidates) -> Tensor:
        return -candidates.edges


def test_custom_regularisers_are_accepted() -> None:
    def mean_edges(weight: float) -> float:
        config = ClassConfig(0, nodes=7, regularisers=(FewEdges(weight),), **SMALL)  # type: ignore[arg-type]
        found = run(config)
        return sum(answer.graph.edge_count for answer in found) / len(found)

    assert mean_edges(50.0) < mean_edges(0.0) - 2


def _candidates(graphs: list[Graph]) -> Candidates:
    batch = to_dense(graphs)
    reference = ReferenceShape.of(to_dense(REFERENCE), torch.full((len(REFERENCE),), -20.0), 16)
    return Candidates(batch, -torch.arange(1.0, len(graphs) + 1), reference)


def test_regularisers_are_their_formulas() -> None:
    graphs = [erdos_renyi(seed, nodes, 0.3) for seed, nodes in enumerate([5, 9, 10, 11, 8])]
    candidates = _candidates(graphs)
    terms = [r.score(candidates) for r in (Likelihood(1), Connectivity(1), Sparsity(1), Size(1))]
    for position, graph in enumerate(graphs):
        nodes = graph.node_count
        own = networkx_of(graph)
        like = [other for other in REFERENCE if other.node_count == nodes]
        edges = sum(other.edge_count for other in like) / len(like) if like else nodes - 1
        typical = -20.0 / nodes if like else 0.0
        linked = sum(degree > 0 for _, degree in own.degree)
        expected = [
            -(position + 1) / nodes - typical,
            1 - nx.number_connected_components(own),
            -abs(graph.edge_count - edges) / edges,
            -linked / 16,
        ]
        found = [float(term[position]) for term in terms]
        assert found == pytest.approx(expected, abs=1e-5)


def _coloured(edges: list[tuple[int, int]], kinds: list[int]) -> Graph:
    return Graph(torch.eye(FEATURES)[kinds], torch.tensor(edges).view(-1, 2).T.contiguous())


def test_valence_counts_edges_beyond_the_largest_degree_of_a_kind() -> None:
    path = _coloured([(0, 1), (1, 2)], [0, 1, 0])  # kind 0 has one edge at most, kind 1 two
    star = _coloured([(0, 1), (0, 2), (0, 3)], [0, 1, 1, 0])
    unknown = Graph(torch.full((4, FEATURES), 7.0), star.edges)
    limits = DegreeLimits.of([path, path])
    assert limits.excess(to_dense([path, star, unknown])).tolist() == [0, 2, 0]
    measured = DegreeLimits.of(REFERENCE)  # no two rows alike
    assert measured.excess(to_dense([erdos_renyi(0, 9, 1.0)])).tolist() == [0]


def test_recurrence_is_the_log_frequency_among_parts() -> None:
    path, star = _coloured([(0, 1), (1, 2)], [0, 1, 0]), _coloured([(0, 1), (0, 2)], [0, 0, 0])
    turned = _coloured([(0, 2), (1, 2)], [0, 0, 1])  # the path, its nodes numbered otherwise
    shape = ReferenceShape.of(
        to_dense([path]),
        torch.zeros(1),
        3,
        frequency=dict.fromkeys(graph_codes(to_dense([path])), 0.25),
    )
    candidates = Candidates(to_dense([turned, star]), torch.zeros(2), shape)
    assert Recurrence(1).score(candidates).exp().tolist() == pytest.approx([0.25, 0.125])


def test_patterns_without_kinds_of_nodes_recur_by_their_edges() -> None:
    path = torch.tensor([[0, 1], [1, 2]])
    graphs = to_dense([Graph(torch.rand(3, 2), path) for _ in range(2)])
    codes = graph_codes(graphs, features=False)
    assert codes[0] == codes[1]
    assert len(set(graph_codes(graphs))) == 2
    likelihood = torch.zeros(2)
    known = {codes[0]: 0.5}
    for kinds, expected in ((False, 0.5), (True, 0.25)):  # unknown ones count as half of the rarest
        shape = ReferenceShape.of(graphs, likelihood, 3, frequency=known, kinds=kinds)
        score = Recurrence(1).score(Candidates(graphs, likelihood, shape))
        assert score.exp().tolist() == pytest.approx([expected] * 2)


def test_codes_of_edges_alone_ignore_edge_attributes() -> None:
    path, features = torch.tensor([[0, 1], [1, 2]]), torch.ones(3, 1)
    carried = [
        Graph(features, path, edge_attributes=torch.tensor(attributes))
        for attributes in ([[1.0], [2.0]], [[3.0], [4.0]])
    ]
    graphs = to_dense(carried)
    assert len(set(graph_codes(graphs))) == 2
    assert len(set(graph_codes(graphs, features=False))) == 1


@pytest.mark.parametrize("measured", [True, False])
def test_chains_know_how_often_patterns_recur(measured: bool) -> None:
    coloured = _coloured([(0, 1), (1, 2)], [0, 1, 0])
    reference = [
        replace(coloured, features=torch.rand(3, FEATURES)) if measured else coloured
        for _ in range(6)
    ]
    parts = ClassParts(reference, torch.Generator().manual_seed(0))
    config = ChainConfig(1, 4, guided=True, repeats=False, regularisers=(Recurrence(1.0),))
    chains = Chains(
        a_gnn(),
        a_denoiser(),
        config,
        parts=parts,
        sizes=[3],
        generator=torch.Generator().manual_seed(0),
        device=CPU,
    )
    shape = chains._reference
    assert shape.kinds is not measured
    score = Recurrence(1.0).score(Candidates(to_dense(reference[:1]), torch.zeros(1), shape))
    assert score.tolist() == [0.0]  # every connected part of three nodes is this path


def test_feature_rows_are_kinds_if_they_repeat() -> None:
    path = _coloured([(0, 1), (1, 2)], [0, 1, 0])
    assert ClassParts([path, path], torch.Generator()).kinds
    assert not ClassParts(REFERENCE, torch.Generator()).kinds  # no two rows alike


def test_codes_of_graphs_do_not_depend_on_their_batch() -> None:
    small, large = erdos_renyi(0, 5, 0.5), erdos_renyi(1, 9, 0.5)
    together = graph_codes(to_dense([large, small]))
    assert together == [*graph_codes(to_dense([large])), *graph_codes(to_dense([small]))]


def test_terms_are_weighted_and_added_to_the_log_confidence() -> None:
    candidates = _candidates([erdos_renyi(seed, 9, 0.3) for seed in range(3)])
    confidence = torch.tensor([0.5, 0.9, 0.1])
    some = (Connectivity(2.0), Size(0.5))
    expected = confidence.log() + 2 * some[0].score(candidates) + 0.5 * some[1].score(candidates)
    torch.testing.assert_close(regularised(confidence.log(), candidates, some), expected)


def test_faults_are_all_costs_but_likelihood_and_recurrence() -> None:
    candidates = _candidates([erdos_renyi(seed, 9, 0.2) for seed in range(5)])
    terms = (Likelihood(3.0), Connectivity(2.0), Recurrence(3.0), Size(0.5))
    expected = -2 * terms[1].score(candidates) - 0.5 * terms[3].score(candidates)
    torch.testing.assert_close(faults_of(candidates, terms), expected)


def test_regularisers_are_chosen_by_name() -> None:
    chosen = regularisers_for({"likelihood": 0.0, "size": 1.5})
    kept = (Connectivity(2.0), Valence(2.0), Recurrence(DEFAULT_WEIGHTS["recurrence"]))
    assert chosen == (*kept, Size(1.5))
    with pytest.raises(ValueError, match="colour"):
        regularisers_for({"colour": 1.0})  # type: ignore[dict-item]


def test_parts_are_connected_pieces_of_reference_graphs() -> None:
    parts = ClassParts(REFERENCE, torch.Generator().manual_seed(0))
    for _ in range(20):
        part = parts.draw(5)
        assert part.node_count == 5
        assert nx.is_connected(networkx_of(part))
        matcher = (
            nx.isomorphism.GraphMatcher(
                networkx_of(whole), networkx_of(part), node_match=lambda a, b: a["x"] == b["x"]
            )
            for whole in REFERENCE
        )
        assert any(match.subgraph_is_isomorphic() for match in matcher)
