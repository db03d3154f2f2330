"""The believable search, compared with exhaustive search on tiny graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import networkx as nx
import pytest
import torch
from torch import Tensor

from d4explain.gnn.graphs import Graph, to_sparse
from d4explain.gnn.network import Gnn
from models.counterfactual.believable.answers import BelievableSets, believable_sets
from models.counterfactual.believable.ensemble import WITNESS_MARGIN, Ensemble
from models.counterfactual.believable.search import (
    BELIEVABLE_PRESETS,
    BelievableConfig,
    BelievableSearch,
    BelievableSet,
)
from models.counterfactual.oracle import CounterfactualOracle, FlipGoal
from models.counterfactual.panel import Panel
from models.graphs.edits import EditRules, EditSet, EditSpace
from models.realism.reference_patterns import MIN_COUNT, InputPatterns, ReferencePatterns
from tests.unit.models.small_gnns import (
    edge_counter,
    graph_of,
    mixed_edge_counter,
    random_gnn,
    random_graph,
)

torch.set_num_threads(1)
CPU = torch.device("cpu")
WIDE = BelievableConfig(beam=10_000, evaluated=10_000)
DEFAULT = BelievableConfig()
ROUNDING = 1e-9  # the random GNNs are float64

Pair = tuple[int, int]


@dataclass
class Case:
    """A graph, a GNN and its witnesses; the search is towards the other of two classes."""

    graph: Graph
    gnn: Gnn
    witnesses: list[Gnn]
    rules: EditRules
    reference: list[Graph] | None = None

    def __post_init__(self) -> None:
        self.space = EditSpace.of(self.graph, self.rules)
        self.before = int(logits(self.gnn, self.graph).argmax())

    def patterns(self) -> InputPatterns | None:
        if self.reference is None:
            return None
        return InputPatterns(ReferencePatterns.of(self.reference), self.graph)

    def oracle(self, should_stop: Callable[[], bool] = lambda: False) -> CounterfactualOracle:
        return CounterfactualOracle(
            self.gnn, self.space, FlipGoal(self.before, None), CPU, should_stop
        )

    def search(
        self,
        config: BelievableConfig = DEFAULT,
        oracle: CounterfactualOracle | None = None,
    ) -> BelievableSearch:
        target = 1 - self.before
        ensemble = Ensemble(oracle or self.oracle(), self.space, self.witnesses, target, CPU)
        return BelievableSearch(self.space, ensemble, self.patterns(), config)

    def margins(self, edit_sets: Sequence[EditSet]) -> Tensor:
        """Margins of the GNN and the witnesses by their sparse form: [set, network]."""
        edited = to_sparse(self.space.apply_all(edit_sets))
        with torch.no_grad():
            values = [gnn(edited) for gnn in (self.gnn, *self.witnesses)]
        return torch.stack([one[:, 1 - self.before] - one[:, self.before] for one in values], dim=1)

    def check(self, answer: BelievableSet) -> None:
        """The answer flips the GNN and convinces as many witnesses as it says, at least half."""
        own, *others = self.margins([answer.edits])[0].tolist()
        assert own > 0
        assert answer.convinced == sum(margin > 0 for margin in others)
        assert 2 * answer.convinced >= len(others)


def sufficient(margins: Tensor) -> Tensor:
    """Whether the GNN flips and every witness has the margin: [set]."""
    required = torch.full_like(margins, WITNESS_MARGIN)
    required[:, 0] = 0
    assert float((margins - required).abs().min()) > ROUNDING  # rounding decides nothing
    return (margins > required).all(dim=1)


def logits(gnn: Gnn, graph: Graph) -> Tensor:
    with torch.no_grad():
        return gnn(to_sparse([graph]))[0]


def in_float64(graph: Graph) -> Graph:
    return Graph(graph.features.double(), graph.edges, graph.target)


def random_case(
    seed: int,
    nodes: int = 6,
    witnesses: int = 3,
    rules: EditRules | None = None,
    *,
    typed_reference: int = 0,
) -> Case:
    graph = in_float64(random_graph(seed, nodes))
    reference = [random_graph(100 + k, nodes) for k in range(typed_reference)]
    return Case(
        graph,
        random_gnn(seed, graph).double(),
        [random_gnn(10 * seed + k, graph).double() for k in range(1, witnesses + 1)],
        rules or EditRules(max_edits=3, max_ratio=10.0),
        reference or None,
    )


def networkx_of(graph: Graph) -> nx.Graph:
    result = nx.Graph(graph.edges.T.tolist())
    result.add_nodes_from(range(graph.node_count))
    return result


def patterns_of(graph: Graph) -> list[tuple[int, tuple[int, ...]]]:
    types = graph.features.argmax(dim=1).tolist()
    neighbours = networkx_of(graph)
    return [
        (types[node], tuple(sorted(types[other] for other in neighbours[node])))
        for node in range(graph.node_count)
    ]


def only_seen(case: Case, edits: EditSet) -> bool:
    assert case.reference is not None
    counts = Counter(pattern for graph in case.reference for pattern in patterns_of(graph))
    before, after = patterns_of(case.graph), patterns_of(case.space.apply(edits))
    return all(
        new == old or counts[new] >= MIN_COUNT for new, old in zip(after, before, strict=True)
    )


def all_sets(case: Case) -> list[EditSet]:
    sizes = range(1, case.space.budget + 1)
    return [edits for size in sizes for edits in combinations(range(case.space.count), size)]


def test_a_wide_search_finds_the_fewest_edits() -> None:
    # Up to three edits, every set is reached through sets of at most its own size.
    sizes = []
    for seed in range(10):
        case = random_case(seed, nodes=5, witnesses=seed % 3)
        sets = all_sets(case)
        enough = [sets[row] for row in sufficient(case.margins(sets)).nonzero()[:, 0].tolist()]
        found = case.search(WIDE).run(wanted=3)
        if enough:
            sizes.append(min(map(len, enough)))
            assert found[0].edits in enough
            assert len(found[0].edits) == sizes[-1]
        else:
            sizes.append(0)
            assert not any(answer.edits in enough for answer in found)
    assert set(sizes) == {0, 1, 2, 3}  # the seeds include all cases


RULES = {
    "all": EditRules(max_edits=4, max_ratio=10.0),
    "add only": EditRules(max_edits=4, max_ratio=10.0, remove=False),
    "remove only": EditRules(max_edits=4, max_ratio=10.0, add=False),
    "frozen": EditRules(
        max_edits=4,
        max_ratio=10.0,
        frozen_nodes=frozenset({0}),
        frozen_pairs=frozenset({(1, 2), (4, 3)}),
    ),
    "connected": EditRules(max_edits=4, max_ratio=10.0, keep_connected=True),
    "one edit": EditRules(max_edits=1, max_ratio=10.0),
}


@pytest.mark.parametrize("name", RULES)
def test_answers_flip_the_sparse_gnn_and_obey_the_rules(name: str) -> None:
    rules, found = RULES[name], 0
    for seed in range(6):
        case = random_case(seed, nodes=7, rules=rules)
        for answer in case.search().run(wanted=3):
            found += 1
            case.check(answer)
            assert len(set(answer.edits)) == len(answer.edits) <= case.space.budget
            before = {tuple(edge) for edge in case.graph.edges.T.tolist()}
            after = {tuple(edge) for edge in case.space.apply(answer.edits).edges.T.tolist()}
            added, removed = after - before, before - after
            assert rules.add or not added
            assert rules.remove or not removed
            touched = added | removed
            assert not any(set(pair) & rules.frozen_nodes for pair in touched)
            assert not any({pair, pair[::-1]} & rules.frozen_pairs for pair in touched)
            if rules.keep_connected:
                old, new = networkx_of(case.graph), networkx_of(case.space.apply(answer.edits))
                assert all(
                    nx.has_path(new, a, b)
                    for part in nx.connected_components(old)
                    for a, b in combinations(part, 2)
                )
    assert found > 0


def test_answers_contain_only_seen_patterns_if_there_is_a_reference_set() -> None:
    found, without_rule = 0, 0
    for seed in range(8):
        case = random_case(seed, nodes=6, witnesses=2, rules=RULES["all"], typed_reference=40)
        answers = case.search().run(wanted=3)
        found += len(answers)
        assert all(only_seen(case, answer.edits) for answer in answers)
        case.reference, kept = None, case.reference
        free = case.search().run(wanted=3)
        case.reference = kept
        without_rule += sum(not only_seen(case, answer.edits) for answer in free)
    assert found > 0
    assert without_rule > 0  # the rule matters for these graphs


def test_no_edit_and_no_pair_of_edits_is_superfluous() -> None:
    sizes = set()
    for seed in range(10):
        case = random_case(seed, nodes=7, rules=EditRules(max_edits=6, max_ratio=10.0))
        for answer in case.search().run(wanted=3):
            sizes.add(len(answer.edits))
            smaller = [
                tuple(edit for edit in answer.edits if edit not in dropped)
                for count in (1, 2)
                for dropped in combinations(answer.edits, count)
                if count < len(answer.edits)
            ]
            if not smaller:
                continue
            margins = case.margins(smaller)
            flips = margins[:, 0] > 0
            convinced = (margins[:, 1:] > 0).sum(dim=1) >= answer.convinced
            if bool(sufficient(case.margins([answer.edits]))[0]):
                assert not bool((flips & sufficient(margins)).any())
            else:
                assert not bool((flips & convinced).any())
    assert max(sizes) > 2


def test_the_search_is_deterministic() -> None:
    case = random_case(2, nodes=8, rules=RULES["all"])
    first, second = case.search().run(wanted=3), case.search().run(wanted=3)
    assert first
    assert first == second


def test_the_inputs_of_the_search_stay_as_they_are() -> None:
    case = random_case(2, nodes=8, rules=RULES["all"], typed_reference=40)
    features, edges, base = (
        value.clone() for value in (case.graph.features, case.graph.edges, case.space.base)
    )
    weights = [value.clone() for value in case.gnn.state_dict().values()]
    case.search().run(wanted=3)
    assert torch.equal(case.graph.features, features)
    assert torch.equal(case.graph.edges, edges)
    assert torch.equal(case.space.base, base)
    for value, kept in zip(case.gnn.state_dict().values(), weights, strict=True):
        assert torch.equal(value, kept)
    assert all(parameter.grad is None for parameter in case.gnn.parameters())


PATH = graph_of(6, {(k, k + 1) for k in range(5)})  # five edges


def counting_case(own: float, others: Sequence[float], budget: int = 4) -> Case:
    """GNN and witnesses count edges; class 1 is above their thresholds."""
    witnesses = [edge_counter(threshold) for threshold in others]
    rules = EditRules(max_edits=budget, max_ratio=10.0)
    return Case(PATH, edge_counter(own), witnesses, rules)


@pytest.mark.parametrize(
    ("own", "others", "edits"),
    [
        (5.5, [], 1),  # without witnesses, the GNN alone
        (5.5, [5.5], 1),  # a sixth edge has a margin of 1
        (5.5, [5.6], 2),  # a margin of .8 is not enough
        (6.5, [5.5, 7.5], 3),
        (8.5, [8.5], 4),
    ],
)
def test_edits_suffice_for_the_gnn_and_the_margin_of_every_witness(
    own: float, others: list[float], edits: int
) -> None:
    found = counting_case(own, others).search().run(wanted=2)
    assert 0 < len(found) <= 4
    assert {len(answer.edits) for answer in found} == {edits}
    assert {answer.convinced for answer in found} == {len(others)}


def test_half_of_the_witnesses_are_enough_if_no_set_convinces_all() -> None:
    [answer] = counting_case(5.5, [5.5, 5.5, 99, 99]).search().run(wanted=3)
    assert answer.convinced == 2
    assert len(answer.edits) == 1  # more edits convince nobody else


def test_fewer_than_half_of_the_witnesses_are_no_answer() -> None:
    assert counting_case(5.5, [5.5, 99, 99]).search().run(wanted=3) == []
    assert counting_case(99, [5.5, 5.5]).search().run(wanted=3) == []


def test_states_without_room_leave_the_beam_to_others() -> None:
    # Two complete graphs of unlike types, and a matching between them. A swap adds two mixed edges
    # by four edits, which is the whole budget. Only four added edges flip the GNN.
    edges = {
        *combinations(range(4), 2),
        *combinations(range(4, 8), 2),
        *((k, k + 4) for k in range(4)),
    }
    graph = graph_of(8, edges, [0] * 4 + [1] * 4)
    value = 0.9 * 4 + 0.1 * len(edges)
    rules = EditRules(max_edits=4, max_ratio=10.0)
    case = Case(graph, mixed_edge_counter(value + 3.5), [], rules)
    config = BelievableConfig(beam=8, evaluated=8, structure_weight=0)
    found = case.search(config).run(wanted=1)
    assert [len(answer.edits) for answer in found] == [4] * len(found)
    assert found
    for answer in found:
        assert not any(case.space.present[pair] for pair in answer.edits)


def test_every_set_is_evaluated_once_and_counted() -> None:
    # No set convinces the witness, so a wide search tries all sets of up to 3 of the 6 pairs.
    graph = graph_of(4, {(0, 1), (1, 2), (2, 3)})
    rules = EditRules(max_edits=3, max_ratio=10.0)
    case = Case(graph, edge_counter(99), [edge_counter(99)], rules)
    oracle = case.oracle()
    assert case.search(WIDE, oracle).run(wanted=1) == []
    sets, expanded = 6 + 15 + 20, 1 + 6 + 15
    assert oracle.evaluations == sets + expanded
    assert oracle.gradient_count == expanded


@pytest.mark.parametrize(
    "graph", [graph_of(1, set()), graph_of(4, set()), graph_of(3, {(0, 1)})], ids=str
)
def test_nothing_to_edit_or_no_budget_is_no_answer(graph: Graph) -> None:
    rules = EditRules(max_edits=0) if graph.edge_count else EditRules()
    case = Case(graph, edge_counter(5), [edge_counter(5)], rules)
    assert case.search().run(wanted=3) == []


def test_all_pairs_frozen_is_no_answer() -> None:
    rules = EditRules(max_ratio=10.0, frozen_nodes=frozenset(range(6)))
    assert Case(PATH, edge_counter(5.5), [], rules).search().run(wanted=3) == []


def test_a_stop_request_returns_what_is_known() -> None:
    case = random_case(5, nodes=8, rules=RULES["all"])
    complete = case.search().run(wanted=3)
    assert complete
    assert max(len(answer.edits) for answer in complete) > 1
    stopped_with_answers, limit = 0, 0
    while True:
        calls = iter(range(limit))
        oracle = case.oracle(lambda: next(calls, None) is None)  # noqa: B023
        search = case.search(oracle=oracle)
        found = search.run(wanted=3)
        for answer in found:
            case.check(answer)
        if not search.stopped:
            break
        assert limit > 0 or found == []
        stopped_with_answers += bool(found)
        limit += 1
    assert found == complete
    assert stopped_with_answers > 0


def verified(case: Case, panel: Panel, target: int | None = None) -> BelievableSets:
    goal = FlipGoal(case.before, target)
    return believable_sets(
        CounterfactualOracle(case.gnn, case.space, goal, CPU),
        case.space,
        panel,
        case.patterns(),
        DEFAULT,
        probabilities=logits(case.gnn, case.graph).softmax(dim=0),
        alternatives=3,
        device=CPU,
    )


def test_the_class_with_the_most_convinced_witnesses_is_taken() -> None:
    for seed in range(4):
        graph = random_graph(seed, 6)
        gnn = random_gnn(seed, graph, 3)
        witnesses = tuple(random_gnn(20 + seed + k, graph, 3) for k in range(4))
        case = Case(graph, gnn, list(witnesses), RULES["all"])
        classes = [label for label in range(3) if label != case.before]
        by_class = {label: verified(case, Panel(witnesses), label).sets for label in classes}
        for label, answers in by_class.items():
            for answer in answers:
                edited = case.space.apply(answer.edits)
                assert int(logits(gnn, edited).argmax()) == label
                others = [logits(witness, edited) for witness in witnesses]
                assert answer.convinced == sum(int(one.argmax()) == label for one in others)
        both: list[BelievableSet] = [one for answers in by_class.values() for one in answers]
        most = max((answer.convinced for answer in both), default=0)
        free = verified(case, Panel(witnesses))
        assert {one.edits for one in free.sets} == {
            one.edits for one in both if one.convinced == most
        }
        assert not free.stopped


def test_the_rule_on_patterns_can_be_switched_off() -> None:
    # The reference set is one edge, so no edited node is ever seen.
    case = counting_case(5.5, [5.5])
    case.reference = [graph_of(2, {(0, 1)})]
    witnesses = tuple(case.witnesses)
    assert verified(case, Panel(witnesses)).sets == []
    assert verified(case, Panel(witnesses, only_seen=False)).sets != []


def test_presets_widen_the_search() -> None:
    fast, balanced, thorough = (
        BELIEVABLE_PRESETS[name] for name in ("fast", "balanced", "thorough")
    )
    assert fast.beam < balanced.beam < thorough.beam
    assert fast.evaluated < balanced.evaluated < thorough.evaluated
    assert balanced == BelievableConfig()


@pytest.mark.parametrize("settings", [{"beam": 0}, {"evaluated": 0}])
def test_an_empty_search_is_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        BelievableConfig(**settings)


def test_of_flips_by_one_edit_the_best_keeps_the_ring() -> None:
    """Every removal flips the GNN. A tail that falls off changes less than an open ring."""
    types = [0, 1, 0, 1, 0, 1, 1]
    ring, tail = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5)], (0, 6)
    rules = EditRules(max_edits=1, max_ratio=1.0, add=False)
    case = Case(graph_of(7, [*ring, tail], types), mixed_edge_counter(6.5), [], rules)
    pairs = list(zip(case.space.sources.tolist(), case.space.targets.tolist(), strict=True))
    found = case.search().run(wanted=7)
    assert {pairs[answer.edits[0]] for answer in found} == {*ring, tail}
    assert pairs[found[0].edits[0]] == tail
    equal = case.search(BelievableConfig(structure_weight=0)).run(wanted=7)
    assert pairs[equal[0].edits[0]] == (0, 1)
