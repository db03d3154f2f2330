"""Candidate pairs of large graphs: the same graphs and figures as the dense edit space."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from d4explain.gnn.edge_attributes import UsualAttributes
from d4explain.gnn.graphs import Graph
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import (
    ActivationLayer,
    GcnLayer,
    GinLayer,
    GnnSpec,
    LinearLayer,
    PoolLayer,
)
from models.counterfactual.edit_ranking import DenoiserEditRanker, EffectSource
from models.counterfactual.explain import CounterfactualConfig, explain
from models.counterfactual.large.candidate_space import CandidateConfig, CandidateSpace
from models.counterfactual.large.patches import PatchEditRanker, local_parts, patches_of
from models.counterfactual.oracle import CounterfactualOracle, FlipGoal
from models.diffusion.denoiser import Denoiser, DenoiserShape
from models.errors import TooLargeError, UnknownNodeError
from models.graphs.edits import LARGE_SET, EditRules, EditSet, EditSpace
from models.graphs.isomorphism import marked_codes

torch.set_num_threads(1)
CPU = torch.device("cpu")
ALWAYS = CandidateConfig(above_nodes=0)


def rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def graph_of(network: nx.Graph, features: int = 1, seed: int = 0) -> Graph:
    kinds = torch.randint(0, 2, (network.number_of_nodes(), features), generator=rng(seed))
    edges = torch.tensor(sorted(tuple(sorted(edge)) for edge in network.edges)).view(-1, 2)
    return Graph(kinds.float() if features > 1 else torch.ones(len(kinds), 1), edges.T.contiguous())


def restricted(graph: Graph, rules: EditRules | None = None, seed: int = 0) -> CandidateSpace:
    space = CandidateSpace.restricted(graph, rules or EditRules(), ALWAYS, seed)
    assert isinstance(space, CandidateSpace)
    return space


def star_and_ba(nodes: int) -> nx.Graph:
    """Half of the nodes are leaves of one hub."""
    network = nx.barabasi_albert_graph(nodes // 2, 2, seed=0)
    network.add_edges_from((0, leaf) for leaf in range(nodes // 2, nodes))
    return network


@st.composite
def graphs(draw: st.DrawFn) -> nx.Graph:
    seed, nodes = draw(st.integers(0, 500)), draw(st.integers(12, 60))
    return draw(
        st.sampled_from(
            [
                nx.random_labeled_tree(nodes, seed=seed),
                nx.barabasi_albert_graph(nodes, 2, seed=seed),
                star_and_ba(nodes),
                nx.disjoint_union(nx.cycle_graph(nodes // 2), nx.path_graph(6)),
            ]
        )
    )


@settings(max_examples=20, deadline=None)
@given(network=graphs(), seed=st.integers(0, 100))
def test_candidates_are_edges_near_pairs_and_some_far_pairs(network: nx.Graph, seed: int) -> None:
    graph = graph_of(network)
    space = restricted(graph, seed=seed)
    pairs = list(zip(space.sources.tolist(), space.targets.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs) == space.count <= 8 * graph.edge_count
    assert all(source < target for source, target in pairs)
    edges = {tuple(sorted(edge)) for edge in network.edges}
    present = {pair for pair, is_edge in zip(pairs, space.present.tolist(), strict=True) if is_edge}
    assert present == edges
    near = {
        pair
        for node in network
        if network.degree(node) <= 24
        for one in network[node]
        for other in network[node]
        if (pair := (min(one, other), max(one, other))) not in edges and one != other
    }
    if len(edges) + len(near) + graph.edge_count <= 8 * graph.edge_count:
        assert near <= set(pairs)
    again = restricted(graph, seed=seed)
    assert torch.equal(again.sources, space.sources)


def test_edges_keep_their_attributes() -> None:
    plain = graph_of(nx.barabasi_albert_graph(30, 2, seed=1), features=2)
    attributes = torch.eye(2)[torch.randint(0, 2, (plain.edge_count,), generator=rng(3))]
    usual = UsualAttributes.seen([plain.features], [plain.edges], [attributes])
    graph = replace(plain, edge_attributes=attributes, usual=usual)
    space, dense = restricted(graph), EditSpace.of(graph, EditRules())
    pairs = list(zip(dense.sources.tolist(), dense.targets.tolist(), strict=True))
    for pair in range(space.count):
        same = pairs.index(space.pairs((pair,))[0])
        assert space.attributes_of(pair) == dense.attributes_of(same)
    edits = (0, 5, space.count - 1)
    (own,) = space.apply_all([edits])
    other = dense.apply(tuple(sorted(pairs.index(pair) for pair in space.pairs(edits))))
    assert torch.equal(own.edges, other.edges)
    assert own.edge_attributes is not None
    assert other.edge_attributes is not None
    assert torch.equal(own.edge_attributes, other.edge_attributes)
    for part in local_parts(graph, 8, 4):
        assert part.edge_attributes is not None
        assert len(part.edge_attributes) == part.edge_count
        assert part.usual is usual


def test_candidates_obey_the_rules() -> None:
    graph = graph_of(nx.barabasi_albert_graph(40, 2, seed=1))
    frozen = EditRules(frozen_nodes=frozenset({0, 5}), frozen_pairs=frozenset({(7, 2)}))
    space = restricted(graph, frozen)
    ends = torch.stack([space.sources, space.targets])
    assert not torch.isin(ends, torch.tensor([0, 5])).any()
    assert (2, 7) not in set(map(tuple, ends.T.tolist()))
    assert not bool(restricted(graph, EditRules(remove=False)).present.any())
    assert bool(restricted(graph, EditRules(add=False)).present.all())
    with pytest.raises(UnknownNodeError):
        restricted(graph, EditRules(frozen_nodes=frozenset({40})))


@settings(max_examples=20, deadline=None)
@given(network=graphs(), seed=st.integers(0, 100), data=st.data())
def test_edited_graphs_equal_those_of_the_dense_space(
    network: nx.Graph, seed: int, data: st.DataObject
) -> None:
    graph = graph_of(network, features=2, seed=seed)
    rules = EditRules(keep_connected=True, max_ratio=1.0)
    space, dense = restricted(graph, rules, seed), EditSpace.of(graph, rules)
    dense_position = {
        pair: position
        for position, pair in enumerate(
            zip(dense.sources.tolist(), dense.targets.tolist(), strict=True)
        )
    }
    one_set = st.lists(st.integers(0, space.count - 1), min_size=1, max_size=4, unique=True)
    sets: list[EditSet] = [
        tuple(sorted(chosen)) for chosen in data.draw(st.lists(one_set, min_size=2, max_size=6))
    ]
    same = [tuple(sorted(dense_position[pair] for pair in space.pairs(edits))) for edits in sets]
    for own, other in zip(space.apply_all(sets), dense.apply_all(same), strict=True):
        assert torch.equal(own.edges, other.edges)
    assert space.component_counts(sets) == dense.component_counts(same)
    assert space.allowed(sets) == dense.allowed(same)
    codes, truth = space.symmetry_codes(sets), marked_codes(dense, same)
    for i in range(len(sets)):
        for j in range(i):
            assert (codes[i] == codes[j]) == (truth[i] == truth[j])


@settings(max_examples=20, deadline=None)
@given(network=graphs(), seed=st.integers(0, 100))
def test_statistics_shift_equals_that_of_networkx_degrees_and_clustering(
    network: nx.Graph, seed: int
) -> None:
    space = restricted(graph_of(network), seed=seed)
    chosen = torch.randperm(space.count, generator=rng(seed))[:3].tolist()
    sets: list[EditSet] = [tuple(sorted(chosen)), (chosen[0],)]

    def figures(graph: nx.Graph) -> tuple[list[float], list[float]]:
        scale = max(2 * network.number_of_edges() / network.number_of_nodes(), 1)
        degrees = sorted(degree / scale for _, degree in graph.degree)
        return degrees, sorted(nx.clustering(graph).values())

    before = figures(network)
    for edits, shift in zip(sets, space.statistics_shift(sets), strict=True):
        edited = network.copy()
        for one, other in space.pairs(edits):
            (edited.remove_edge if edited.has_edge(one, other) else edited.add_edge)(one, other)
        gaps = [
            sum(abs(a - b) for a, b in zip(now, then, strict=True)) / len(now)
            for now, then in zip(figures(edited), before, strict=True)
        ]
        assert shift == pytest.approx(sum(gaps), abs=1e-9)


@pytest.mark.parametrize("make", [star_and_ba, lambda n: nx.barabasi_albert_graph(n, 2, seed=0)])
def test_few_patches_contain_every_candidate_once(make: Callable[[int], nx.Graph]) -> None:
    space = restricted(graph_of(make(1000)))
    patches = list(patches_of(space, ALWAYS))
    assert sorted(pair for patch in patches for pair in patch.pairs) == list(range(space.count))
    for patch in patches:
        assert len(set(patch.nodes)) == len(patch.nodes) <= 64
        members = set(patch.nodes)
        for one, other in (ends for pair in patch.pairs for ends in space.pairs((pair,))):
            assert {one, other} <= members
    # A hub does not need a patch per neighbour.
    assert len(patches) < 300


def network(pool: str = "mean", features: int = 2, seed: int = 0) -> Gnn:
    layers = (GinLayer(6, 6), ActivationLayer("relu"), GcnLayer(6), PoolLayer(pool), LinearLayer(3))  # type: ignore[arg-type]
    gnn = Gnn(GnnSpec(features, 3, layers)).eval()
    with torch.no_grad():
        for parameter in gnn.parameters():
            parameter.normal_(generator=rng(seed))
    return gnn


def denoiser_for(gnn: Gnn) -> Denoiser:
    """A denoiser whose predicted effects differ from the slopes."""
    shape = DenoiserShape(
        gnn.spec.features, hidden=4, blocks=1, classes=3, gnn_width=gnn.spec.state_width
    )
    denoiser = Denoiser(shape).eval()
    with torch.no_grad():
        denoiser.effect_out.normal_(generator=rng(1))
        denoiser.head_out.normal_(generator=rng(2))
    return denoiser


def test_a_single_patch_gives_the_gains_of_the_whole_graph() -> None:
    graph = graph_of(nx.barabasi_albert_graph(30, 2, seed=3), features=2)
    gnn = network()
    denoiser = denoiser_for(gnn)
    goal = FlipGoal(int(predict(gnn, [graph], CPU).argmax()), None)
    space, dense = restricted(graph), EditSpace.of(graph, EditRules())
    sparse_oracle, dense_oracle = (
        CounterfactualOracle(gnn, edit_space, goal, CPU) for edit_space in (space, dense)
    )
    patches = PatchEditRanker(denoiser, sparse_oracle, space, ALWAYS, device=CPU, generator=rng(0))
    whole = DenoiserEditRanker(
        denoiser, dense_oracle, CPU, effect_source=EffectSource.DENOISER, generator=rng(0)
    )
    pairs = list(zip(dense.sources.tolist(), dense.targets.tolist(), strict=True))
    positions = [pairs.index(pair) for pair in space.pairs(tuple(range(space.count)))]
    assert torch.allclose(patches.gains, whole.gains[positions], rtol=1e-3, atol=1e-4)
    assert torch.allclose(patches.plausibility, whole.plausibility[positions], rtol=1e-3, atol=1e-4)
    sets = [(0,), (1, 4)]
    same = [tuple(sorted(positions[pair] for pair in edits)) for edits in sets]
    assert sparse_oracle.margins(sets) == pytest.approx(dense_oracle.margins(same), abs=1e-4)


def test_measured_gains_replace_predicted_gains() -> None:
    graph = graph_of(nx.barabasi_albert_graph(100, 2, seed=3), features=2)
    gnn = network()
    goal = FlipGoal(int(predict(gnn, [graph], CPU).argmax()), None)
    space = restricted(graph)
    oracle = CounterfactualOracle(gnn, space, goal, CPU)
    ranker = PatchEditRanker(denoiser_for(gnn), oracle, space, ALWAYS, device=CPU, generator=rng(0))
    unedited, edited = oracle.margins([(), (7,)])
    assert float(ranker.gains[7]) == pytest.approx(edited - unedited, abs=1e-6)
    assert torch.equal(ranker.gains_at([(1,), (2, 3)])[1], ranker.gains)


def edge_counter(threshold: float) -> Gnn:
    """Class 1 if nodes + 2·edges > threshold, so the flips are known without a search."""
    layers = (GinLayer(2, 2), PoolLayer("sum"), LinearLayer(2))
    gnn = Gnn(GnnSpec(1, 2, layers)).eval()
    weights = {
        "layers.0.conv.eps": torch.zeros(1),
        "layers.0.conv.nn.0.weight": torch.ones(2, 1),
        "layers.0.conv.nn.0.bias": torch.zeros(2),
        "layers.0.conv.nn.2.weight": torch.eye(2),
        "layers.0.conv.nn.2.bias": torch.zeros(2),
        "layers.2.linear.weight": torch.tensor([[0.0, 0.0], [0.5, 0.5]]),
        "layers.2.linear.bias": torch.tensor([0.0, -threshold]),
    }
    gnn.load_state_dict(weights)
    return gnn


@pytest.mark.parametrize("has_denoiser", [True, False])
@pytest.mark.parametrize("edits", [1, 8])
def test_a_large_graph_is_flipped_by_the_fewest_edits(edits: int, has_denoiser: bool) -> None:
    graph = graph_of(star_and_ba(540))
    counted = graph.node_count + 2 * graph.edge_count
    gnn = edge_counter(counted - 2 * edits + 1.0)  # flips without `edits` edges
    denoiser = untrained_denoiser() if has_denoiser else None
    outcome = explain(gnn, denoiser, graph, EditRules(), CounterfactualConfig(), seed=0, device=CPU)
    assert outcome.candidates is not None
    assert outcome.candidates <= 8 * graph.edge_count
    assert [len(found.edits) for found in outcome.found] == [edits] * len(outcome.found)
    assert outcome.found
    for found in outcome.found:
        assert not any(edit.added for edit in found.edits)
        assert int(predict(gnn, [found.graph], CPU).argmax()) == 0
        network = nx.Graph(found.graph.edges.T.tolist())
        network.add_nodes_from(range(540))
        assert found.connected == nx.is_connected(network)
    again = explain(gnn, denoiser, graph, EditRules(), CounterfactualConfig(), seed=0, device=CPU)
    assert [found.edits for found in again.found] == [found.edits for found in outcome.found]


def flipped_by_removals(edits: int) -> tuple[Gnn, Graph]:
    """A graph that flips only if `edits` edges are removed."""
    graph = graph_of(star_and_ba(1100))
    return edge_counter(graph.node_count + 2 * graph.edge_count - 2 * edits + 1.0), graph


def untrained_denoiser() -> Denoiser:
    return Denoiser(DenoiserShape(1, hidden=4, blocks=1, classes=2, gnn_width=2)).eval()


def test_a_flip_of_hundreds_of_edits_is_pruned_in_few_rounds() -> None:
    needed = LARGE_SET + 24
    gnn, graph = flipped_by_removals(needed)
    config = CounterfactualConfig()
    outcome = explain(gnn, untrained_denoiser(), graph, EditRules(), config, seed=0, device=CPU)
    assert [len(found.edits) for found in outcome.found] == [needed] * len(outcome.found)
    assert outcome.found
    unpruned = replace(config, prune=False)
    unpruned_outcome = explain(
        gnn, untrained_denoiser(), graph, EditRules(), unpruned, seed=0, device=CPU
    )
    size = len(unpruned_outcome.found[0].edits)
    assert size > needed
    # For each of three sets: one round over all edits, and one over the remaining edits.
    most = 3 * (size + needed + 50)
    assert outcome.gnn_evaluations - unpruned_outcome.gnn_evaluations < most


def test_if_pruning_of_a_large_set_is_stopped_the_smallest_set_so_far_is_returned() -> None:
    needed = LARGE_SET + 24
    gnn, graph = flipped_by_removals(needed)
    sizes = []
    for checks in (100, 140, 200):
        calls = iter(range(checks))

        def should_stop(calls: Iterator[int] = calls) -> bool:
            return next(calls, None) is None

        outcome = explain(
            gnn,
            untrained_denoiser(),
            graph,
            EditRules(),
            CounterfactualConfig(),
            seed=0,
            device=CPU,
            should_stop=should_stop,
        )
        (found,) = outcome.found[:1]
        assert int(predict(gnn, [found.graph], CPU).argmax()) == 0
        sizes.append(len(found.edits))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1] == needed


def test_cached_margins_of_the_sparse_gnn_are_not_verified_again() -> None:
    graph = graph_of(nx.barabasi_albert_graph(100, 2, seed=3), features=2)
    gnn = network()
    goal = FlipGoal(int(predict(gnn, [graph], CPU).argmax()), None)
    oracle = CounterfactualOracle(gnn, restricted(graph), goal, CPU)
    sets: list[EditSet] = [(0,), (1, 4), tuple(range(LARGE_SET + 1))]
    margins = oracle.trial_margins(sets)
    before = oracle.evaluations
    assert oracle.sure_margins(sets) == margins
    assert oracle.evaluations == before
    (unknown,) = oracle.sure_margins([(2, 3)])
    assert oracle.evaluations == before + 1
    assert (unknown > 0) == (oracle.margins([(2, 3)])[0] > 0)


def test_a_stop_while_patches_are_read_is_the_reason() -> None:
    graph = graph_of(star_and_ba(540))
    calls = iter([False, *[True] * 1000])
    gnn = edge_counter(10.0)
    outcome = explain(
        gnn,
        Denoiser(DenoiserShape(1, hidden=4, blocks=1, classes=2, gnn_width=2)).eval(),
        graph,
        EditRules(),
        CounterfactualConfig(),
        seed=0,
        device=CPU,
        should_stop=lambda: next(calls),
    )
    assert not outcome.found
    assert "stopped" in str(outcome.reason)


def test_the_paper_sampler_refuses_large_graphs() -> None:
    graph = graph_of(star_and_ba(40))
    config = CounterfactualConfig(sampler="paper", candidates=replace(ALWAYS, above_nodes=39))
    gnn = edge_counter(10.0)
    denoiser = Denoiser(DenoiserShape(1, hidden=4, blocks=1)).eval()
    with pytest.raises(TooLargeError, match="40 nodes"):
        explain(gnn, denoiser, graph, EditRules(), config, seed=0, device=CPU)
