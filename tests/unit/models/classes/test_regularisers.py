"""Regularisers of the class sampler, and the parts that its features come from."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import pytest
import torch

from d4explain.gnn.graphs import Graph, to_dense
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
    regularised,
    regularisers_for,
)
from models.classes.reverse_sampling import ChainConfig, Chains
from models.graphs.isomorphism import graph_codes
from tests.unit.models.classes.small_networks import (
    CPU,
    FEATURES,
    REFERENCE,
    a_denoiser,
    a_gnn,
    erdos_renyi,
    networkx_of,
)

torch.set_num_threads(1)


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
        hosts=[],
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
