"""Oracle, beam search and flips of many edits, compared with direct predictions of the GNN."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from d4explain.gnn.graphs import Graph, to_sparse
from d4explain.gnn.network import Gnn, predict
from d4explain.gnn.spec import ActivationLayer, GcnLayer, GnnSpec, LinearLayer, PoolLayer
from models.counterfactual.edit_ranking import DenoiserEditRanker, EffectSource
from models.counterfactual.oracle import FORBIDDEN, CounterfactualOracle, FlipGoal, StoppedError
from models.counterfactual.search.beam_search import BeamSearch
from models.counterfactual.search.ranked_edits import best_edit_sets, ranked_flips
from models.counterfactual.search.search_config import SearchConfig
from models.counterfactual.search.single_edits import MAX_PAIRS, SingleEdits, pairs_tried
from models.diffusion.denoiser import Denoiser, DenoiserShape
from models.graphs.edits import LARGE_SET, EditRules, EditSpace
from models.graphs.valences import Valences

torch.set_num_threads(1)

CPU = torch.device("cpu")
LAYERS = (GcnLayer(6), ActivationLayer("tanh"), GcnLayer(6), PoolLayer("sum"), LinearLayer(3))


def make_oracle(
    nodes: int = 7, *, rules: EditRules | None = None, bias: float = 0.0, target: int | None = None
) -> CounterfactualOracle:
    rng = torch.Generator().manual_seed(nodes)
    edges = torch.triu(torch.rand(nodes, nodes, generator=rng) < 0.4, diagonal=1).nonzero().T
    graph = Graph(torch.randn(nodes, 2, generator=rng), edges.contiguous())
    with torch.random.fork_rng():
        torch.manual_seed(nodes)
        gnn = Gnn(GnnSpec(2, 3, LAYERS)).eval()
    before = int(predict(gnn, [graph], CPU)[0].argmax())
    with torch.no_grad():
        gnn.layers[-1].linear.bias[before] += bias
    space = EditSpace.of(graph, rules or EditRules(max_ratio=10.0))
    return CounterfactualOracle(gnn, space, FlipGoal(before, target), CPU)


def make_ranker(
    oracle: CounterfactualOracle,
    *,
    predicts_effects: bool = False,
    effect_source: EffectSource = EffectSource.DENOISER,
) -> DenoiserEditRanker:
    """The denoiser is untrained: all edits are equally plausible."""
    spec = oracle.gnn.spec
    shape = DenoiserShape(
        2,
        hidden=4,
        blocks=1,
        classes=spec.classes if predicts_effects else 0,
        gnn_width=spec.state_width if predicts_effects else 0,
    )
    rng = torch.Generator().manual_seed(0)
    return DenoiserEditRanker(
        Denoiser(shape), oracle, CPU, effect_source=effect_source, generator=rng
    )


def start_search(
    oracle: CounterfactualOracle, ranker: DenoiserEditRanker, config: SearchConfig | None = None
) -> tuple[BeamSearch, SingleEdits]:
    """A search after depth 1 that never has enough flips."""
    search = BeamSearch(oracle, ranker, config or SearchConfig())
    return search, search.begin()


def direct_margins(oracle: CounterfactualOracle, edit_sets: list[tuple[int, ...]]) -> torch.Tensor:
    with torch.no_grad():
        graphs = [oracle.space.apply(edits) for edits in edit_sets]
        logits = oracle.gnn(to_sparse(graphs))
    others = [column for column in range(3) if column != oracle.goal.before]
    return logits[:, others].amax(dim=1) - logits[:, oracle.goal.before]


def test_margins_equal_those_of_the_sparse_gnn_in_any_batch() -> None:
    oracle = make_oracle()
    sets = list(combinations(range(oracle.space.count), 2))
    batched = torch.tensor(oracle.margins(sets))
    torch.testing.assert_close(batched, direct_margins(oracle, sets), rtol=1e-4, atol=1e-5)
    single = torch.tensor([make_oracle().margins([edits])[0] for edits in sets[:20]])
    torch.testing.assert_close(single, batched[:20], rtol=1e-5, atol=1e-6)


def test_cached_margins_are_not_evaluated_again() -> None:
    oracle = make_oracle()
    oracle.margins([(0,), (1,), (0,)])
    assert oracle.evaluations == 2
    oracle.margins([(1,), (0,)])
    assert oracle.evaluations == 2


def test_forbidden_sets_are_not_evaluated_and_are_no_flips() -> None:
    oracle = make_oracle(rules=EditRules(max_edits=1, max_ratio=10.0))
    assert oracle.margins([(0, 1)]) == [FORBIDDEN]
    assert oracle.verified_margins([(0, 1)]) == [FORBIDDEN]
    assert oracle.evaluations == 0
    assert oracle.flips() == []
    assert oracle.misses(3) == []


@pytest.mark.parametrize("predicts_effects", [False, True])
def test_a_pool_omits_pairs_without_a_free_valence(predicts_effects: bool) -> None:
    plain = make_oracle(10)
    edges = [tuple(edge) for edge in plain.space.graph.edges.T.tolist()]
    full = Valences(free=(0,) * 10, orders=dict.fromkeys(edges, 1))
    oracle = make_oracle(10, rules=EditRules(max_ratio=10.0, valences=full), bias=100.0)
    space = oracle.space
    effect_source = EffectSource.DENOISER if predicts_effects else EffectSource.SLOPES
    ranker = make_ranker(oracle, predicts_effects=predicts_effects, effect_source=effect_source)
    assert torch.equal(ranker.gains > FORBIDDEN, space.present)
    _, single_edits = start_search(oracle, ranker, SearchConfig(pool=6, calibrated=False))
    assert len(single_edits.tried) >= 6
    assert all(space.present[single_edits.tried].tolist())
    first, second = next(
        pairs
        for pairs in combinations(space.present.nonzero()[:, 0].tolist(), 2)
        if len({end for pair in pairs for end in _ends(space, pair)}) == 4
    )
    (gains,) = ranker.gains_at([(first, second)])
    ends = {*_ends(space, first), *_ends(space, second)}
    freed = [set(_ends(space, pair)) <= ends for pair in range(space.count)]
    possible = torch.tensor(freed) | space.present
    assert torch.equal(gains > FORBIDDEN, possible)


def _ends(space: EditSpace, pair: int) -> tuple[int, int]:
    return int(space.sources[pair]), int(space.targets[pair])


@pytest.mark.parametrize("target", [None, 0, 1, 2])
def test_margins_are_positive_for_flips_only(target: int | None) -> None:
    rng = torch.Generator().manual_seed(0)
    scores = torch.randn(200, 3, generator=rng)
    goal = FlipGoal(before=1, target=target)
    predicted = scores.argmax(dim=1)
    flipped = predicted == target if target is not None else predicted != 1
    assert torch.equal(goal.margin(scores) > 0, flipped)


def test_gradients_are_slopes_of_the_margin() -> None:
    oracle = make_oracle()
    state = (2, 5)
    (slopes,) = oracle.gradients([state])
    step = 1e-2
    graphs = oracle.space.dense([state])
    for pair in range(oracle.space.count):
        source, target = int(oracle.space.sources[pair]), int(oracle.space.targets[pair])
        direction = 1 - 2 * float(graphs.adjacency[0, source, target])
        margins = []
        for sign in (1, -1):
            adjacency = graphs.adjacency.clone()
            adjacency[0, source, target] += sign * direction * step
            adjacency[0, target, source] += sign * direction * step
            with torch.no_grad():
                logits = oracle.gnn.dense(graphs.with_adjacency(adjacency))
            margins.append(float(oracle.goal.margin(logits)))
        assert float(slopes[pair]) == pytest.approx(
            (margins[0] - margins[1]) / (2 * step), abs=2e-2
        )


def test_single_effects_are_exact() -> None:
    oracle = make_oracle()
    _, single_edits = start_search(oracle, make_ranker(oracle))
    singles = [(pair,) for pair in range(oracle.space.count)]
    assert single_edits.tried == list(range(oracle.space.count))
    expected = direct_margins(oracle, singles) - direct_margins(oracle, [()])
    torch.testing.assert_close(single_edits.effects, expected, rtol=1e-4, atol=1e-5)


def test_with_too_many_pairs_edges_and_promising_pairs_are_tried() -> None:
    oracle = make_oracle(70)
    assert oracle.space.count > MAX_PAIRS
    plausibility = torch.linspace(0, 1, oracle.space.count)
    ranker = make_ranker(oracle)
    ranker.plausibility = plausibility
    _, single_edits = start_search(oracle, ranker)
    assert len(single_edits.tried) == MAX_PAIRS
    # Plus the input, once for its margin and once for its gradient.
    assert oracle.evaluations == MAX_PAIRS + 2
    assert oracle.gradient_count == 1
    edges = oracle.space.present.nonzero()[:, 0].tolist()
    gradient = make_oracle(70).gradients([()])[0]
    steepest_edges = sorted(edges, key=lambda pair: -float(gradient[pair]))[: MAX_PAIRS // 2]
    assert {*steepest_edges, int(gradient.argmax()), oracle.space.count - 1} <= set(
        single_edits.tried
    )


def test_an_untrained_effect_head_predicts_the_slopes() -> None:
    oracle = make_oracle()
    states = [(), (2, 5)]
    ranker = make_ranker(oracle, predicts_effects=True)
    slopes = make_oracle().gradients(states)
    torch.testing.assert_close(ranker.gains, slopes[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ranker.gains_at(states), slopes, rtol=1e-4, atol=1e-5)


def test_with_predicted_effects_only_a_pool_is_tried() -> None:
    oracle = make_oracle(12)
    ranker = make_ranker(oracle, predicts_effects=True)
    _, single_edits = start_search(oracle, ranker, SearchConfig(pool=10))
    assert len(single_edits.tried) == 10
    assert oracle.evaluations == 11  # plus the input, whose sensitivity includes its margin
    assert (
        oracle.gradient_count == oracle.gnn.spec.classes - 1
    )  # the last class follows from the others
    assert int(ranker.gains.argmax()) in single_edits.tried
    untried = [pair for pair in range(oracle.space.count) if pair not in single_edits.tried]
    assert torch.equal(single_edits.effects[untried], ranker.gains[untried])
    exact = direct_margins(oracle, [(pair,) for pair in single_edits.tried]) - direct_margins(
        oracle, [()]
    )
    torch.testing.assert_close(
        single_edits.effects[single_edits.tried], exact, rtol=1e-4, atol=1e-5
    )


def bias_for(way: float) -> float:
    """A bias for 12 nodes with which the best single edit goes this share of the way to a flip."""
    plain = make_oracle(12)
    unedited, *edited = plain.margins([(), *((pair,) for pair in range(plain.space.count))])
    return (max(edited) - unedited) / way + unedited


def test_an_uncalibrated_ranker_tries_all_pairs() -> None:
    oracle = make_oracle(12, bias=bias_for(0.3))
    ranker = make_ranker(oracle, predicts_effects=True)
    ranker.calibrated_pool = None
    _, single_edits = start_search(oracle, ranker, SearchConfig(pool=10))
    assert single_edits.tried == list(range(oracle.space.count))


def test_without_predicted_effects_all_pairs_are_tried() -> None:
    oracle = make_oracle(12)
    ranker = make_ranker(oracle, predicts_effects=True, effect_source=EffectSource.NONE)
    _, single_edits = start_search(oracle, ranker, SearchConfig(pool=10))
    assert single_edits.tried == list(range(oracle.space.count))


def test_large_graphs_try_fewer_pairs() -> None:
    assert pairs_tried(50) == MAX_PAIRS == 2000
    assert pairs_tried(512) * 512**2 <= 2**26


@pytest.mark.parametrize("predicts_effects", [True, False])
def test_if_there_are_few_sets_all_are_tried(predicts_effects: bool) -> None:
    oracle = make_oracle(bias=50.0)
    search, _ = start_search(oracle, make_ranker(oracle, predicts_effects=predicts_effects))
    search.deepen()
    before = oracle.evaluations
    oracle.margins(list(combinations(range(oracle.space.count), 2)))
    assert oracle.evaluations == before


def test_the_best_state_tries_every_pair() -> None:
    oracle = make_oracle(bias=50.0)
    config = SearchConfig(all_sets=1)
    search, single_edits = start_search(oracle, make_ranker(oracle), config)
    search.deepen()
    best = int(single_edits.effects.argmax())
    before = oracle.evaluations
    oracle.margins(
        [tuple(sorted((best, pair))) for pair in range(oracle.space.count) if pair != best]
    )
    assert oracle.evaluations == before


def test_a_stop_request_interrupts_margins_but_not_verification() -> None:
    oracle = make_oracle()
    stopped = CounterfactualOracle(
        oracle.gnn, oracle.space, oracle.goal, CPU, should_stop=lambda: True
    )
    with pytest.raises(StoppedError):
        stopped.margins([(0,)])
    assert stopped.verify([(0,)]).shape == (1, 3)  # answers can still be verified


def test_a_search_stops_after_a_batch_if_there_are_enough_flips() -> None:
    oracle = make_oracle(12)
    depths: list[int] = []

    def enough(depth: int) -> bool:
        depths.append(depth)
        return len(depths) == 2

    ranker = make_ranker(oracle)
    single_edits = BeamSearch(oracle, ranker, SearchConfig(batch_size=10), enough).begin()
    assert depths == [1, 1]
    assert len(single_edits.tried) == 20
    slopes = make_oracle(12).gradients([()])[0]
    untried = [pair for pair in range(oracle.space.count) if pair not in single_edits.tried]
    torch.testing.assert_close(single_edits.effects[untried], slopes[untried], rtol=1e-4, atol=1e-5)


def bias_for_flips(count: int) -> tuple[float, set[int]]:
    """A bias for 12 nodes with which `count` single edits flip the GNN, and their pairs."""
    plain = make_oracle(12)
    margins = torch.tensor(plain.margins([(pair,) for pair in range(plain.space.count)]))
    values, pairs = margins.topk(count + 1)
    return float(values[-2:].mean()), set(pairs[:count].tolist())


@pytest.mark.parametrize(("flips", "more"), [(1, 24), (2, 12), (3, 8)])
def test_a_depth_ends_after_fewer_misses_if_more_flips_are_known(flips: int, more: int) -> None:
    bias, pairs = bias_for_flips(flips)
    oracle = make_oracle(12, bias=bias)
    ranker = make_ranker(oracle, predicts_effects=True)
    _, single_edits = start_search(
        oracle, ranker, SearchConfig(pool=None, batch_size=4, stale_limit=24)
    )
    assert {pair for (pair,) in oracle.flips()} == pairs
    order = ranker.gains.argsort(descending=True, stable=True).tolist()
    until_flips = 4 * (max(order.index(pair) for pair in pairs) // 4 + 1)
    assert until_flips + more < oracle.space.count
    assert single_edits.tried == sorted(order[: until_flips + more])


@pytest.mark.parametrize(
    ("stale_limit", "effect_source"),
    [(None, EffectSource.DENOISER), (8, EffectSource.NONE)],
    ids=["never", "random"],
)
def test_without_a_stale_limit_or_predicted_order_a_depth_is_finished(
    stale_limit: int | None, effect_source: EffectSource
) -> None:
    bias, _ = bias_for_flips(1)
    oracle = make_oracle(12, bias=bias)
    ranker = make_ranker(oracle, predicts_effects=True, effect_source=effect_source)
    _, single_edits = start_search(
        oracle, ranker, SearchConfig(pool=None, batch_size=4, stale_limit=stale_limit)
    )
    assert single_edits.tried == list(range(oracle.space.count))


def test_a_flip_of_more_edits_does_not_end_a_depth() -> None:
    plain = make_oracle(12)
    singles = plain.margins([(pair,) for pair in range(plain.space.count)])
    best = sorted(range(plain.space.count), key=lambda pair: -singles[pair])
    larger = tuple(sorted(best[:3]))
    (margin,) = plain.margins([larger])
    assert margin > max(singles)
    oracle = make_oracle(12, bias=(margin + max(singles)) / 2)
    oracle.margins([larger])
    assert oracle.flips() == [larger]
    ranker = make_ranker(oracle, predicts_effects=True)
    _, single_edits = start_search(
        oracle, ranker, SearchConfig(pool=None, batch_size=4, stale_limit=8)
    )
    assert single_edits.tried == list(range(oracle.space.count))


def test_only_margins_near_the_decision_boundary_are_verified() -> None:
    oracle = make_oracle()
    sets = [(pair,) for pair in range(oracle.space.count)]
    dense = oracle.margins(sets)
    clear = [edits for edits, margin in zip(sets, dense, strict=True) if abs(margin) > 0.1]
    before = oracle.evaluations
    assert oracle.sure_margins(clear) == oracle.margins(clear)
    assert oracle.evaluations == before
    assert oracle.sure_margins([(0, 1)]) == oracle.verified_margins([(0, 1)])
    assert oracle.evaluations == before + 1


def test_large_sets_that_pruning_tries_become_flips_or_misses_only_through_margins() -> None:
    large = [tuple(range(start, start + LARGE_SET + 1)) for start in range(4)]
    small = [(0,), (1, 2)]
    truth = make_oracle(30).margins([*large, *small])
    oracle = make_oracle(30)
    assert oracle.trial_margins([*large, *small, large[0]]) == [*truth, truth[0]]
    assert oracle.evaluations == 6
    assert set(oracle.misses(10)) == set(small)
    assert oracle.trial_margins(large) == truth[:4]
    assert oracle.margins(large) == truth[:4]
    assert oracle.evaluations == 6
    assert set(oracle.misses(10)) == {*large, *small}


def test_verified_probabilities_of_large_sets_are_not_cached() -> None:
    oracle = make_oracle(30)
    large, small = tuple(range(LARGE_SET + 1)), (0, 1)
    first = oracle.verify([large, small])
    assert torch.equal(oracle.verify([small]), first[1:])
    assert oracle.evaluations == 2
    torch.testing.assert_close(oracle.verify([large]), first[:1])
    assert oracle.evaluations == 3


def test_the_best_edits_are_the_largest_positive_gains_of_each_kind() -> None:
    oracle = make_oracle(9)
    ranker = make_ranker(oracle, effect_source=EffectSource.SLOPES)
    gains, present = ranker.gains.tolist(), oracle.space.present.tolist()
    ranked = sorted(range(len(gains)), key=lambda pair: -gains[pair])
    kinds = (
        [pair for pair in ranked if gains[pair] > 0],
        [pair for pair in ranked if gains[pair] > 0 and present[pair]],
        [pair for pair in ranked if gains[pair] > 0 and not present[pair]],
    )
    assert best_edit_sets(ranker, oracle.space.present, 4) == [tuple(kind[:4]) for kind in kinds]


@pytest.mark.parametrize("minimal", [True, False])
def test_flips_of_many_edits_keep_to_the_budget_and_need_every_edit(minimal: bool) -> None:
    rules = EditRules(max_edits=12, max_ratio=10.0)
    plain = make_oracle(12, rules=rules)
    ranker = make_ranker(plain, effect_source=EffectSource.SLOPES)
    (most, *_) = best_edit_sets(ranker, plain.space.present, 12)
    # With this bias the twelve best edits flip the GNN together.
    bias = float(direct_margins(plain, [tuple(sorted(most))])) - 1e-3
    oracle = make_oracle(12, rules=rules, bias=bias)
    ranker = make_ranker(oracle, effect_source=EffectSource.SLOPES)
    flips = ranked_flips(oracle, ranker, ranker.gains, wanted=3, minimal=minimal)
    assert flips
    for edits in flips:
        assert 1 < len(edits) <= 12
        assert direct_margins(oracle, [edits]).item() > 0
        smaller = [tuple(edit for edit in edits if edit != one) for one in edits]
        if minimal:
            assert (direct_margins(oracle, smaller) <= 0).all()
    assert set(flips) <= set(oracle.flips())
