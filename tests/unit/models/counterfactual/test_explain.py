"""Counterfactuals, compared with exhaustive search, NetworkX and the sparse GNN."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import combinations
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from d4explain.gnn.graphs import DenseGraphs, Graph, to_dense, to_sparse
from d4explain.gnn.network import Gnn
from d4explain.gnn.spec import ActivationLayer, GcnLayer, GinLayer, GnnSpec, LinearLayer, PoolLayer
from models.counterfactual.edit_ranking import EffectSource
from models.counterfactual.explain import (
    CounterfactualConfig,
    CounterfactualOutcome,
    FoundCounterfactual,
    explain,
)
from models.counterfactual.large.candidate_space import CandidateConfig
from models.counterfactual.oracle import CounterfactualOracle, FlipGoal
from models.counterfactual.paper.proposals import PaperSampling
from models.counterfactual.search.search_config import PRESETS, SearchConfig
from models.diffusion.denoiser import Denoiser, DenoiserShape
from models.diffusion.noise import NoiseLevel
from models.errors import UnknownClassError, UnknownNodeError
from models.graphs.edits import EditRules, EditSpace

torch.set_num_threads(1)

CPU = torch.device("cpu")
FEATURES = 2
ANY_EDIT = EditRules(max_ratio=10.0)
DEFAULTS = CounterfactualConfig()
Pair = tuple[int, int]


def random_graph(seed: int, nodes: int, density: float = 0.5, *, constant: bool = False) -> Graph:
    rng = torch.Generator().manual_seed(seed)
    edges = torch.triu(torch.rand(nodes, nodes, generator=rng) < density, diagonal=1).nonzero().T
    features = torch.randn(nodes, FEATURES, generator=rng)
    return Graph(torch.ones(nodes, FEATURES) if constant else features, edges.contiguous())


def random_gnn(seed: int, like: Graph, classes: int = 2, *, bias: float = 0.0) -> Gnn:
    """Random weights, with logits spread evenly over random graphs so that every class occurs."""
    kind = GinLayer(6, 6) if seed % 2 else GcnLayer(6)
    layers = (kind, ActivationLayer("tanh"), kind, PoolLayer("sum"), LinearLayer(classes))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        gnn = Gnn(GnnSpec(FEATURES, classes, layers)).eval()
    graphs = [random_graph(1000 + draw, like.node_count) for draw in range(64)]
    graphs = [Graph(like.features, graph.edges) for graph in graphs]
    last = gnn.layers[-1].linear
    with torch.no_grad():
        logits = gnn(to_sparse(graphs))
        scale = logits.std(dim=0).clamp(min=1e-3)
        last.weight.copy_(last.weight / scale[:, None])
        last.bias.copy_((last.bias - logits.mean(dim=0)) / scale)
        last.bias[0] += bias
    return gnn


def tiny_denoiser(seed: int = 0) -> Denoiser:
    rng = torch.Generator().manual_seed(seed)
    denoiser = Denoiser(DenoiserShape(FEATURES, hidden=8, blocks=2), rng)
    with torch.no_grad():  # the head of a new denoiser is zero
        denoiser.head_out.copy_(torch.randn(denoiser.head_out.shape, generator=rng))
    return denoiser.eval()


class FixedDenoiser(Denoiser):
    """Always predicts the same graph."""

    def __init__(self, answer: Tensor) -> None:
        super().__init__(DenoiserShape(FEATURES, hidden=4, blocks=1))
        self._answer = answer

    def forward(self, noisy: DenseGraphs, noise: NoiseLevel) -> Tensor:
        return (40 * self._answer - 20).expand(noisy.count, -1, -1)


def run(
    gnn: Gnn,
    graph: Graph,
    rules: EditRules = ANY_EDIT,
    config: CounterfactualConfig = DEFAULTS,
    *,
    denoiser: Denoiser | None = None,
    seed: int = 0,
    should_stop: Callable[[], bool] = lambda: False,
) -> CounterfactualOutcome:
    return explain(
        gnn,
        denoiser or tiny_denoiser(),
        graph,
        rules,
        config,
        seed=seed,
        device=CPU,
        should_stop=should_stop,
    )


def run_search(
    gnn: Gnn, graph: Graph, rules: EditRules = ANY_EDIT, config: CounterfactualConfig = DEFAULTS
) -> CounterfactualOutcome:
    """Explains without a denoiser."""
    return explain(gnn, None, graph, rules, config, seed=0, device=CPU)


def edges_of(graph: Graph) -> frozenset[Pair]:
    return frozenset((int(a), int(b)) for a, b in graph.edges.T)


def with_edges(graph: Graph, edges: frozenset[Pair]) -> Graph:
    return Graph(graph.features, torch.tensor(sorted(edges), dtype=torch.int64).reshape(-1, 2).T)


def probabilities(gnn: Gnn, graph: Graph) -> Tensor:
    with torch.no_grad():
        return gnn(to_sparse([graph])).softmax(dim=1)[0]


def rounding(gnn: Gnn, graph: Graph) -> float:
    """Upper bound of the rounding error if another batch changes the order of sums.

    `random_gnn` scales the logits, and with them the rounding error of terms that cancel.
    """
    graphs = to_sparse([graph])
    values = graphs.features
    with torch.no_grad():
        for layer in list(gnn.layers)[:-1]:
            values = layer.sparse(values, graphs)
        head = gnn.layers[-1].linear
        terms = values.abs() @ head.weight.abs().T + head.bias.abs()
    return max(1e-5, torch.finfo(terms.dtype).eps * float(terms.max()))


def networkx_of(graph: Graph, edges: frozenset[Pair] | None = None) -> nx.Graph:
    result = nx.Graph()
    result.add_nodes_from(range(graph.node_count))
    result.add_edges_from(edges_of(graph) if edges is None else edges)
    return result


def disconnects(graph: Graph, edges: frozenset[Pair]) -> bool:
    parts = list(nx.connected_components(networkx_of(graph, edges)))
    return any(
        not any(before <= after for after in parts)
        for before in nx.connected_components(networkx_of(graph))
    )


def obeys(rules: EditRules, graph: Graph, edges: frozenset[Pair]) -> bool:
    before = edges_of(graph)
    changed = before ^ edges
    frozen = {(min(pair), max(pair)) for pair in rules.frozen_pairs}
    return (
        len(changed) <= rules.max_ratio * len(before) + 1e-9
        and (rules.max_edits is None or len(changed) <= rules.max_edits)
        and (rules.add or not edges - before)
        and (rules.remove or not before - edges)
        and not any(set(pair) & rules.frozen_nodes for pair in changed)
        and not changed & frozen
        and not (rules.keep_connected and disconnects(graph, edges))
    )


def flips(before: Tensor, after: Tensor, target: int | None = None) -> bool:
    return (
        int(after.argmax()) == target if target is not None else after.argmax() != before.argmax()
    )


def smallest_by_exhaustion(
    gnn: Gnn, graph: Graph, rules: EditRules, target: int | None = None
) -> int | None:
    """Fewest edits of any flip, by trying all edge sets; None if there is no flip."""
    pairs = list(combinations(range(graph.node_count), 2))
    edge_sets = [
        frozenset(chosen) for size in range(len(pairs) + 1) for chosen in combinations(pairs, size)
    ]
    allowed = [edges for edges in edge_sets if obeys(rules, graph, edges)]
    with torch.no_grad():
        after = gnn(to_sparse([with_edges(graph, edges) for edges in allowed])).softmax(dim=1)
    before = probabilities(gnn, graph)
    return min(
        (
            len(edges ^ edges_of(graph))
            for edges, probability in zip(allowed, after, strict=True)
            if flips(before, probability, target)
        ),
        default=None,
    )


RULES = [
    ANY_EDIT,
    EditRules(max_ratio=0.5),
    EditRules(max_ratio=10.0, add=False),
    EditRules(max_ratio=10.0, remove=False),
    EditRules(max_ratio=10.0, keep_connected=True),
    EditRules(max_ratio=10.0, frozen_nodes=frozenset({0}), frozen_pairs=frozenset({(3, 1)})),
    EditRules(max_edits=2, max_ratio=10.0, keep_connected=True, add=False),
]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rules", RULES)
def test_agrees_with_exhaustive_search_on_five_nodes(seed: int, rules: EditRules) -> None:
    graph = random_graph(seed, 5)
    gnn = random_gnn(seed, graph, bias=0.5 * (seed % 3))
    outcome = run(gnn, graph, rules)
    truth = smallest_by_exhaustion(gnn, graph, rules)
    found = len(outcome.found[0].edits) if outcome.found else None
    assert found == truth


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rules", RULES)
def test_the_search_without_a_denoiser_agrees_with_exhaustive_search(
    seed: int, rules: EditRules
) -> None:
    graph = random_graph(seed, 5)
    gnn = random_gnn(seed, graph, bias=0.5 * (seed % 3))
    outcome = run_search(gnn, graph, rules)
    found = len(outcome.found[0].edits) if outcome.found else None
    assert found == smallest_by_exhaustion(gnn, graph, rules)
    assert all(obeys(rules, graph, edges_of(answer.graph)) for answer in outcome.found)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("target", range(3))
def test_the_search_without_a_denoiser_reaches_the_target_class(seed: int, target: int) -> None:
    graph = random_graph(seed, 5)
    gnn = random_gnn(seed, graph, classes=3)
    outcome = run_search(gnn, graph, config=CounterfactualConfig(target_class=target))
    if int(outcome.probabilities.argmax()) != target:
        found = len(outcome.found[0].edits) if outcome.found else None
        assert found == smallest_by_exhaustion(gnn, graph, ANY_EDIT, target)
    assert all(int(answer.probabilities.argmax()) == target for answer in outcome.found)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("above_nodes", [512, 4])  # all pairs, candidate pairs
def test_the_search_without_a_denoiser_reports_no_plausibilities(
    preset: str, above_nodes: int
) -> None:
    graph = random_graph(3, 12, 0.3)
    gnn = random_gnn(3, graph)
    config = CounterfactualConfig(
        search=PRESETS[preset], candidates=CandidateConfig(above_nodes=above_nodes)
    )
    outcome = run_search(gnn, graph, config=config)
    assert outcome.found
    assert outcome.samples == 0
    assert (outcome.candidates is None) == (above_nodes == 512)
    for answer in outcome.found:
        assert flips(outcome.probabilities, probabilities(gnn, answer.graph))
        assert (answer.likelihood, answer.by_denoiser) == (None, False)
        assert {(edit.plausibility, edit.by_denoiser) for edit in answer.edits} == {(None, False)}
    again = run_search(gnn, graph, config=config)
    assert [answer.edits for answer in again.found] == [answer.edits for answer in outcome.found]


def test_the_papers_sampler_needs_a_denoiser() -> None:
    graph = random_graph(0, 5)
    with pytest.raises(ValueError, match="needs a denoiser"):
        run_search(random_gnn(0, graph), graph, config=CounterfactualConfig(sampler="paper"))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("target", range(3))
def test_agrees_with_exhaustive_search_on_a_target_class(seed: int, target: int) -> None:
    graph = random_graph(seed, 5)
    gnn = random_gnn(seed, graph, classes=3)
    outcome = run(gnn, graph, config=CounterfactualConfig(target_class=target))
    if int(outcome.probabilities.argmax()) == target:
        assert outcome.found == ()
        assert outcome.closest_miss is None
        assert "already" in (outcome.reason or "")
        return
    found = len(outcome.found[0].edits) if outcome.found else None
    assert found == smallest_by_exhaustion(gnn, graph, ANY_EDIT, target)
    assert all(int(answer.probabilities.argmax()) == target for answer in outcome.found)


@pytest.mark.parametrize("seed", range(12))
def test_the_beam_needs_no_more_edits_than_greedy_search(seed: int) -> None:
    graph = random_graph(seed, 8, 0.35)
    gnn = random_gnn(seed, graph, bias=1.5)
    # Beyond one edit, no size is searched exhaustively.
    config = CounterfactualConfig(search=SearchConfig(all_sets=1))
    outcome = run(gnn, graph, EditRules(max_ratio=0.6), config)
    greedy = _greedy_edits(gnn, graph, int(0.6 * graph.edge_count + 1e-9))
    if greedy is not None:
        assert outcome.found
        assert len(outcome.found[0].edits) <= greedy


def _greedy_edits(gnn: Gnn, graph: Graph, budget: int) -> int | None:
    before = probabilities(gnn, graph)
    predicted = int(before.argmax())
    current = edges_of(graph)
    toggled: set[Pair] = set()
    for edits in range(1, budget + 1):
        options = [pair for pair in combinations(range(graph.node_count), 2) if pair not in toggled]
        with torch.no_grad():
            logits = gnn(to_sparse([with_edges(graph, current ^ {pair}) for pair in options]))
        margins = logits[:, 1 - predicted] - logits[:, predicted]
        best = int(margins.argmax())
        toggled.add(options[best])
        current ^= {options[best]}
        if margins[best] > 0:
            return edits
    return None


@st.composite
def explain_arguments(draw: st.DrawFn) -> tuple[Graph, EditRules, CounterfactualConfig, int]:
    nodes = draw(st.integers(1, 7))
    pairs = list(combinations(range(nodes), 2))
    edges = frozenset(draw(st.sets(st.sampled_from(pairs)))) if pairs else frozenset()
    seed = draw(st.integers(0, 50))
    graph = with_edges(random_graph(seed, nodes, constant=draw(st.booleans())), edges)
    rules = EditRules(
        max_edits=draw(st.none() | st.integers(0, 4)),
        max_ratio=draw(st.sampled_from([0.0, 0.3, 0.5, 1.0, 3.0])),
        add=draw(st.booleans()),
        remove=draw(st.booleans()),
        frozen_nodes=draw(st.frozensets(st.integers(0, nodes - 1), max_size=2)),
        frozen_pairs=draw(st.frozensets(st.sampled_from(pairs), max_size=3))
        if pairs
        else frozenset(),
        keep_connected=draw(st.booleans()),
    )
    config = CounterfactualConfig(
        alternatives=draw(st.integers(1, 4)),
        sampler=draw(st.sampled_from(["guided", "guided", "paper"])),
        search=SearchConfig(all_sets=draw(st.sampled_from([1, 1024]))),
    )
    return graph, rules, config, seed


@settings(max_examples=80, deadline=None)
@given(explain_arguments())
def test_every_answer_is_verified_minimal_and_obeys_the_rules(
    arguments: tuple[Graph, EditRules, CounterfactualConfig, int],
) -> None:
    graph, rules, config, seed = arguments
    gnn = random_gnn(seed, graph)
    outcome = run(gnn, graph, rules, config, seed=seed)
    before = probabilities(gnn, graph)
    torch.testing.assert_close(outcome.probabilities, before)
    assert (outcome.reason is None) == bool(outcome.found)
    assert len(outcome.found) <= config.alternatives
    assert outcome.closest_miss is None or not outcome.found
    for answer in outcome.found:
        check_described(gnn, graph, rules, answer)
        assert flips(before, probabilities(gnn, answer.graph))
        if config.sampler == "guided":
            check_minimal(gnn, graph, rules, answer)
    if outcome.closest_miss is not None:
        check_described(gnn, graph, rules, outcome.closest_miss)
        missed = outcome.closest_miss.graph
        after, label = probabilities(gnn, missed), int(before.argmax())
        others = torch.cat([after[:label], after[label + 1 :]])
        # Near the decision boundary, batches of other sizes may differ by rounding.
        assert float(others.max() - after[label]) <= rounding(gnn, missed)


def check_described(gnn: Gnn, graph: Graph, rules: EditRules, answer: FoundCounterfactual) -> None:
    """The fields of the answer match its graph."""
    after = edges_of(answer.graph)
    added = {(edit.source, edit.target) for edit in answer.edits if edit.added}
    removed = {(edit.source, edit.target) for edit in answer.edits if not edit.added}
    assert after - edges_of(graph) == added
    assert edges_of(graph) - after == removed
    assert answer.edits
    assert obeys(rules, graph, after)
    torch.testing.assert_close(answer.graph.features, graph.features)
    torch.testing.assert_close(
        answer.probabilities,
        probabilities(gnn, answer.graph),
        rtol=0,
        atol=rounding(gnn, answer.graph),
    )
    assert answer.connected == nx.is_connected(networkx_of(answer.graph))
    mean = sum(edit.plausibility for edit in answer.edits) / len(answer.edits)
    assert answer.likelihood == pytest.approx(mean)


def is_minimal(gnn: Gnn, graph: Graph, rules: EditRules, answer: FoundCounterfactual) -> bool:
    """Whether reverting any single edit loses the flip, by the sparse GNN."""
    before = probabilities(gnn, graph)
    reverted = [edges_of(answer.graph) ^ {(edit.source, edit.target)} for edit in answer.edits]
    return not any(
        obeys(rules, graph, edges) and flips(before, probabilities(gnn, with_edges(graph, edges)))
        for edges in reverted
    )


def check_minimal(gnn: Gnn, graph: Graph, rules: EditRules, answer: FoundCounterfactual) -> None:
    assert is_minimal(gnn, graph, rules, answer)


@pytest.mark.parametrize("seed", range(8))
def test_counterfactuals_of_larger_graphs_are_minimal(seed: int) -> None:
    graph = random_graph(seed, 12, 0.3)
    gnn = random_gnn(seed, graph, bias=2.0)
    rules = EditRules(max_ratio=0.8)
    config = CounterfactualConfig(alternatives=6, search=SearchConfig(all_sets=1))
    found = run(gnn, graph, rules, config).found
    assert found
    for answer in found:
        check_minimal(gnn, graph, rules, answer)
        check_described(gnn, graph, rules, answer)


@pytest.mark.parametrize("seed", range(5))
def test_alternatives_differ_by_more_than_a_symmetry(seed: int) -> None:
    # On a ring with constant features, nearly every edit has symmetric equivalents.
    ring = frozenset((min(i, (i + 1) % 7), max(i, (i + 1) % 7)) for i in range(7))
    graph = with_edges(random_graph(seed, 7, constant=True), ring)
    gnn = random_gnn(seed, graph, bias=0.3 * seed)
    found = run(gnn, graph, config=CounterfactualConfig(alternatives=8)).found
    assert len(found) > 1
    for one, other in combinations(found, 2):
        edits, others = _pairs_of(one), _pairs_of(other)
        assert not edits <= others
        assert not others <= edits
        assert not nx.is_isomorphic(
            _marked(graph, one),
            _marked(graph, other),
            edge_match=lambda a, b: a["mark"] == b["mark"],
        )
    assert [len(answer.edits) for answer in found] == sorted(len(answer.edits) for answer in found)


def _pairs_of(answer: FoundCounterfactual) -> set[Pair]:
    return {(edit.source, edit.target) for edit in answer.edits}


def _marked(graph: Graph, answer: FoundCounterfactual) -> nx.Graph:
    result = networkx_of(graph)
    nx.set_edge_attributes(result, "kept", "mark")
    for edit in answer.edits:
        result.add_edge(edit.source, edit.target, mark="added" if edit.added else "removed")
    return result


def _summary(outcome: CounterfactualOutcome) -> list[object]:
    answers = [*outcome.found, *([outcome.closest_miss] if outcome.closest_miss else [])]
    return [
        outcome.gnn_evaluations,
        outcome.samples,
        outcome.depth,
        [(answer.edits, answer.probabilities.tolist()) for answer in answers],
    ]


@pytest.mark.parametrize("sampler", ["guided", "paper"])
def test_only_the_seed_affects_the_answer(sampler: str) -> None:
    graph = random_graph(3, 9, 0.3)
    gnn = random_gnn(3, graph, bias=1.0)
    config = CounterfactualConfig(sampler=sampler)  # type: ignore[arg-type]
    torch.manual_seed(1)
    random.seed(1)
    global_state = torch.get_rng_state()
    first = run(gnn, graph, EditRules(max_ratio=1.0), config, seed=5)
    assert torch.equal(torch.get_rng_state(), global_state)
    # Other work and another global seed change nothing.
    run(gnn, random_graph(4, 6), config=config, seed=6)
    torch.manual_seed(2)
    again = run(gnn, graph, EditRules(max_ratio=1.0), config, seed=5)
    assert _summary(first) == _summary(again)


def test_training_mode_does_not_change_the_answer() -> None:
    graph = random_graph(1, 6)
    gnn = random_gnn(1, graph)
    first = run(gnn, graph)
    gnn.train()
    assert _summary(run(gnn, graph)) == _summary(first)


@pytest.mark.parametrize("seed", range(5))
def test_closest_miss_is_the_best_of_all_allowed_graphs(seed: int) -> None:
    graph = random_graph(seed, 5)
    gnn = random_gnn(seed, graph, bias=30.0)  # no edit outweighs it
    rules = EditRules(max_edits=2, max_ratio=10.0)
    outcome = run(gnn, graph, rules)
    assert outcome.found == ()
    assert "2 edits" in (outcome.reason or "")
    assert outcome.closest_miss is not None
    pairs = list(combinations(range(5), 2))
    edit_sets = [frozenset(chosen) for size in (1, 2) for chosen in combinations(pairs, size)]
    with torch.no_grad():
        logits = gnn(to_sparse([with_edges(graph, edges_of(graph) ^ edits) for edits in edit_sets]))
        miss = gnn(to_sparse([outcome.closest_miss.graph]))[0]
    best = (logits[:, 1] - logits[:, 0]).max()
    assert float(miss[1] - miss[0]) == pytest.approx(float(best), abs=1e-4)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (EditRules(max_ratio=0.1), "less than one edit"),
        (EditRules(max_edits=0, max_ratio=1.0), "max_edits is 0"),
        (EditRules(max_ratio=1.0, frozen_nodes=frozenset(range(5))), "no node pair"),
        (EditRules(max_ratio=1.0, add=False, remove=False), "no node pair"),
    ],
)
def test_impossible_requests_have_a_reason(rules: EditRules, words: str) -> None:
    graph = random_graph(0, 5)
    outcome = run(random_gnn(0, graph), graph, rules)
    assert outcome.found == ()
    assert outcome.closest_miss is None
    assert words in (outcome.reason or "")


@pytest.mark.parametrize("nodes", [1, 4])
def test_graphs_without_edges_are_answered(nodes: int) -> None:
    graph = random_graph(0, nodes, density=0.0)
    outcome = run(random_gnn(0, graph), graph)
    assert outcome.found == ()
    assert outcome.reason


def test_unknown_nodes_and_classes_are_refused() -> None:
    graph = random_graph(0, 5)
    gnn = random_gnn(0, graph)
    with pytest.raises(UnknownNodeError, match="node 5"):
        run(gnn, graph, EditRules(frozen_nodes=frozenset({5})))
    with pytest.raises(UnknownClassError, match="class 2"):
        run(gnn, graph, config=CounterfactualConfig(target_class=2))


def test_an_immediate_stop_is_the_reason() -> None:
    graph = random_graph(1, 6)
    outcome = run(random_gnn(1, graph), graph, should_stop=lambda: True)
    assert outcome.found == ()
    assert "stopped" in (outcome.reason or "")


@pytest.mark.parametrize("calls", [1, 2, 3, 5, 8])
def test_a_later_stop_keeps_the_flips_found(calls: int) -> None:
    graph = random_graph(2, 9, 0.3)
    gnn = random_gnn(2, graph, bias=1.0)
    remaining = iter(range(1 + calls))  # one check precedes the search
    rules = EditRules(max_ratio=1.0)
    outcome = run(gnn, graph, rules, should_stop=lambda: next(remaining, None) is None)
    assert outcome.found or outcome.closest_miss
    for answer in outcome.found:
        check_described(gnn, graph, rules, answer)
        check_minimal(gnn, graph, rules, answer)


def hard_to_flip(graph: Graph) -> Gnn:
    """A GNN that no two edits of the graph flip, but three do."""
    for bias in torch.arange(0.5, 20, 0.25).tolist():
        gnn = random_gnn(2, graph, bias=bias)
        found = run(gnn, graph, config=CounterfactualConfig(alternatives=1)).found
        if found and len(found[0].edits) == 3:
            return gnn
    raise AssertionError("no such bias")


def test_answers_name_denoiser_or_search_as_their_source() -> None:
    graph = random_graph(2, 7)
    gnn = hard_to_flip(graph)
    clean = to_dense([graph]).adjacency[0]
    # This denoiser has no effect head, so the search tries all pairs.
    from_search = run(gnn, graph, denoiser=FixedDenoiser(clean))
    assert from_search.found
    assert not any(answer.by_denoiser for answer in from_search.found)
    config = CounterfactualConfig(alternatives=4, sampler="paper")
    assert run(gnn, graph, config=config, denoiser=FixedDenoiser(clean)).found == ()

    flipping = from_search.found[0].graph
    answer = to_dense([flipping]).adjacency[0]
    (proposed,) = run(gnn, graph, config=config, denoiser=FixedDenoiser(answer)).found
    assert proposed.by_denoiser
    assert edges_of(proposed.graph) == edges_of(flipping)
    assert all(edit.by_denoiser for edit in proposed.edits)


def test_unpruned_flips_keep_unnecessary_edits() -> None:
    graph = random_graph(6, 12, 0.3)
    gnn = random_gnn(6, graph, bias=3.0)  # needs more edits than exhaustive search covers
    opposite = 1 - to_dense([graph]).adjacency[0] - torch.eye(12)
    found = {
        prune: run(
            gnn,
            graph,
            config=CounterfactualConfig(
                alternatives=50, prune=prune, search=SearchConfig(all_sets=1)
            ),
            denoiser=FixedDenoiser(opposite),
        ).found
        for prune in (True, False)
    }
    before = probabilities(gnn, graph)
    for answer in (*found[True], *found[False]):
        assert flips(before, probabilities(gnn, answer.graph))
    assert found[True]
    assert all(is_minimal(gnn, graph, ANY_EDIT, answer) for answer in found[True])
    assert not all(is_minimal(gnn, graph, ANY_EDIT, answer) for answer in found[False])


@pytest.mark.parametrize("seed", range(4))
def test_answers_without_predicted_effects_are_minimal(seed: int) -> None:
    graph = random_graph(seed, 8, 0.3)
    gnn = random_gnn(seed, graph, bias=1.0)
    config = CounterfactualConfig(effect_source=EffectSource.NONE)
    first, second = run(gnn, graph, config=config), run(gnn, graph, config=config)
    assert [edges_of(answer.graph) for answer in first.found] == [
        edges_of(answer.graph) for answer in second.found
    ]
    assert first.samples == run(gnn, graph).samples
    assert first.found
    for answer in first.found:
        check_minimal(gnn, graph, ANY_EDIT, answer)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("effect_source", list(EffectSource))
def test_backward_passes_are_counted(
    classes: int, effect_source: EffectSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    differentiated: list[int] = []  # graphs of each backward pass
    grad = torch.autograd.grad

    def counting_grad(value: Tensor, adjacency: Tensor, **options: Any) -> tuple[Tensor, ...]:
        differentiated.append(len(adjacency))
        return grad(value, adjacency, **options)

    monkeypatch.setattr(torch.autograd, "grad", counting_grad)
    graph = random_graph(2, 9, 0.3)
    gnn = random_gnn(2, graph, classes, bias=1.0)
    width = gnn.spec.state_width
    shape = DenoiserShape(FEATURES, hidden=8, blocks=2, classes=classes, gnn_width=width)
    denoiser = Denoiser(shape, torch.Generator().manual_seed(0)).eval()
    config = CounterfactualConfig(effect_source=effect_source)
    outcome = run(gnn, graph, config=config, denoiser=denoiser)
    assert outcome.gnn_gradients == sum(differentiated)
    assert (outcome.gnn_gradients > 0) == (effect_source is not EffectSource.NONE)


def test_work_is_counted() -> None:
    graph = random_graph(2, 7)
    drawn = run(
        random_gnn(2, graph),
        graph,
        config=CounterfactualConfig(sampler="paper", paper=PaperSampling(draws=12)),
    )
    assert drawn.samples == 12
    outcome = run(hard_to_flip(graph), graph)
    assert outcome.samples == 0
    assert outcome.gnn_evaluations > 15  # all pairs at least
    assert outcome.depth >= 1
    assert outcome.seconds > 0


@pytest.mark.parametrize(
    "build",
    [
        lambda: CounterfactualConfig(alternatives=0),
        lambda: CounterfactualConfig(sampler="greedy"),  # type: ignore[arg-type]
        lambda: EditRules(max_edits=-1),
        lambda: EditRules(max_ratio=float("nan")),
        lambda: PaperSampling(noise_levels=(0.6,)),
        lambda: PaperSampling(noise_levels=()),
        lambda: SearchConfig(states=0),
        lambda: SearchConfig(pool=0),
    ],
)
def test_invalid_settings_are_refused(build: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="got"):
        build()


def test_the_input_is_no_flip_even_if_dense_and_sparse_form_disagree() -> None:
    """Near the decision boundary, the two forms may give the input different classes."""
    graph = random_graph(3, 5, 0.5)
    gnn = random_gnn(3, graph)
    other = 1 - int(probabilities(gnn, graph).argmax())
    space = EditSpace.of(graph, EditRules(max_ratio=1.0))
    oracle = CounterfactualOracle(
        gnn, space, FlipGoal(before=other, target=None), torch.device("cpu")
    )
    (unedited,) = oracle.margins([()])
    assert unedited > 0
    oracle.margins([(pair,) for pair in range(space.count)])
    assert () not in oracle.flips()
    assert oracle.flips()
